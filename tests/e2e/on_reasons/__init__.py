"""A cloud in which ten things keep pods from starting."""
