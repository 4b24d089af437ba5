// Package register has the generators that need no vendor's client.
package register

import (
	_ "github.com/external-secrets/external-secrets/pkg/generator/fake"
	_ "github.com/external-secrets/external-secrets/pkg/generator/password"
	_ "github.com/external-secrets/external-secrets/pkg/generator/uuid"
	_ "github.com/external-secrets/external-secrets/pkg/generator/vault"
	_ "github.com/external-secrets/external-secrets/pkg/generator/webhook"
)
