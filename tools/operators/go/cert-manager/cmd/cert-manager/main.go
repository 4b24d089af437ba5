// Command cert-manager is the controller, the webhook, the cainjector and the ACME solver of cert-manager in one program.
//
// Upstream keeps these programs in modules of their own, which have no versions that a module proxy could serve. What
// they start is all in the module itself; this file starts it. It is compiled inside of that module.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	cmwebhook "github.com/cert-manager/cert-manager/internal/webhook"
	"github.com/cert-manager/cert-manager/pkg/issuer/acme/http/solver"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	webhookoptions "github.com/cert-manager/cert-manager/pkg/webhook/options"
)

func main() {
	// Pods that solve challenges are started without a name, because the controller gives them flags alone.
	name, arguments := "acmesolver", os.Args[1:]
	if len(arguments) > 0 && !strings.HasPrefix(arguments[0], "-") {
		name, arguments = arguments[0], arguments[1:]
	}
	start, known := map[string]func(context.Context, []string) error{
		"controller": startController,
		"webhook":    startWebhook,
		"cainjector": startCAInjector,
		"acmesolver": startSolver,
	}[name]
	if !known {
		fmt.Fprintf(os.Stderr, "cert-manager: there is no %q; choose controller, webhook, cainjector or acmesolver\n", name)
		os.Exit(2)
	}
	logf.InitLogs()
	ctx := logf.NewContext(ctrl.SetupSignalHandler(), logf.Log, name)
	log.SetLogger(logf.Log)
	err := start(ctx, arguments)
	if err != nil {
		logf.FromContext(ctx).Error(err, "ended")
	}
	logf.FlushLogs()
	if err != nil {
		os.Exit(1)
	}
}

func startWebhook(ctx context.Context, arguments []string) error {
	config, err := webhookoptions.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	webhookoptions.AddConfigFlags(flags, config)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := logf.ValidateAndApply(&config.Logging); err != nil {
		return err
	}
	server, err := cmwebhook.NewCertManagerWebhookServer(logf.FromContext(ctx), *config)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}

func startSolver(ctx context.Context, arguments []string) error {
	challenge := &solver.HTTP01Solver{}
	flags := pflag.NewFlagSet("acmesolver", pflag.ContinueOnError)
	flags.IntVar(&challenge.ListenPort, "listen-port", 8089, "port")
	flags.StringVar(&challenge.Domain, "domain", "", "name that is validated")
	flags.StringVar(&challenge.Token, "token", "", "token of the challenge")
	flags.StringVar(&challenge.Key, "key", "", "answer")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		_ = challenge.Server.Close()
	}()
	return challenge.Listen(logf.FromContext(ctx))
}
