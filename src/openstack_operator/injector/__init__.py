"""The labels injector: a program of its own that gives pods the labels of their nodes."""
