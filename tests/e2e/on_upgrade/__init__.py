"""A cloud that is upgraded to another release while a user works in it."""
