// HashiCorp's Vault, server and client, started as its own main package starts it. Built here rather than there: in
// Vault's go.mod its own modules sdk and api are folders beside it, which the published module does not have. Such
// replacements count in the main module alone, so that here a published version of sdk takes the folder's place: the one
// that is nearest (../../build.py says what it lacks).
package main

import (
	"os"

	"github.com/hashicorp/vault/command"
)

func main() { os.Exit(command.Run(os.Args[1:])) }
