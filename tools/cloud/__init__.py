"""One command from a bare machine to a server that answers: build, start, deploy, watch, prove."""
