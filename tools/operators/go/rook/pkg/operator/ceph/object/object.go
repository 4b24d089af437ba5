// Package object has what other packages of Rook ask of its gateways for objects, and no controller of them: their kinds are of a
// version of Rook's module of kinds that no module proxy serves.
package object

import (
	"context"

	"github.com/rook/rook/pkg/clusterd"
	opcontroller "github.com/rook/rook/pkg/operator/ceph/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// AppName is the label of a gateway's pods.
const AppName = "rook-ceph-rgw"

// Add starts nothing.
func Add(manager.Manager, *clusterd.Context, context.Context, opcontroller.OperatorConfig) error {
	return nil
}
