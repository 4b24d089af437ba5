// Makes or removes a volume, in the pod local-path-provisioner starts on the volume's node: the provisioner expects a
// shell there, and an image without a shell is smaller and needs no registry.
package main

import (
	"flag"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// What is below a directory of this name is a file system of its own, in a file beside it: PATH.img.
const sized = "sized"

// Complete when it gets its name: a node that starts mounts all there are.
const createSized = `
if ! mountpoint -q "$1"; then
  mkdir -p "$1"
  truncate -s "$2" "$1.new"
  mkfs.ext4 -q -F -m 0 "$1.new"
  mv "$1.new" "$1.img"
  mount -o loop "$1.img" "$1"
fi
chmod 777 "$1"
`

const deleteSized = `
if mountpoint -q "$1"; then umount "$1"; fi
rm -f "$1.new" "$1.img"
rm -rf "$1"
`

func main() {
	action := flag.String("a", "", "create or delete")
	path := flag.String("p", "", "directory of the volume")
	size := flag.String("s", "", "size in bytes, which a plain directory cannot enforce")
	flag.String("m", "", "volume mode, always Filesystem")
	flag.Parse()
	scripts := map[string]string{"create": createSized, "delete": deleteSized}
	script, known := scripts[*action]
	var err error
	switch {
	case *path == "":
		log.Fatal("-p is missing")
	case !known:
		log.Fatalf("-a is %q; choose from create, delete", *action)
	case filepath.Base(filepath.Dir(*path)) == sized:
		err = onNode(script, *path, *size)
	case *action == "create":
		err = create(*path)
	default:
		err = os.RemoveAll(*path)
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

// onNode runs a script with the node's programs and in its mount namespace, where kubelet finds what is mounted. The pod
// sees the node's processes, hence the way to its root directory.
func onNode(script string, arguments ...string) error {
	if err := syscall.Chroot("/proc/1/root"); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	command := []string{"--target=1", "--mount", "--", "/bin/sh", "-euc", script, "sh"}
	inside := exec.Command("/usr/bin/nsenter", append(command, arguments...)...)
	inside.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	return inside.Run()
}
