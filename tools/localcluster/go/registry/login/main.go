// Prints a line of a htpasswd file for the user who is named; the password is read from the standard input:
//
//	login USER
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"golang.org/x/crypto/bcrypt"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: login USER < PASSWORD")
	}
	password, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	// The registry checks it for each request, and a random password needs no more.
	hash, err := bcrypt.GenerateFromPassword(password, bcrypt.MinCost)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s:%s\n", os.Args[1], hash)
}
