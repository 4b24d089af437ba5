"""Programs for those who develop the operator. The product imports none of them."""
