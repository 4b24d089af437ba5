// Makes or removes the directory of a volume, in the pod local-path-provisioner starts on the volume's node: the
// provisioner expects a shell there, and an image without a shell is smaller and needs no registry.
package main

import (
	"flag"
	"log"
	"os"
)

func main() {
	action := flag.String("a", "", "create or delete")
	path := flag.String("p", "", "directory of the volume")
	flag.String("s", "", "size in bytes, which a directory cannot enforce")
	flag.String("m", "", "volume mode, always Filesystem")
	flag.Parse()
	var err error
	switch {
	case *path == "":
		log.Fatal("-p is missing")
	case *action == "create":
		err = create(*path)
	case *action == "delete":
		err = os.RemoveAll(*path)
	default:
		log.Fatalf("-a is %q; choose from create, delete", *action)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// The mode is set apart from the creation because the umask would narrow it; a pod of any user writes to its volume.
func create(path string) error {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	return os.Chmod(path, 0o777)
}
