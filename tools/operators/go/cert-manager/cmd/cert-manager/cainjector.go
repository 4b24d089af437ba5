package main

import (
	"context"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	config "github.com/cert-manager/cert-manager/internal/apis/config/cainjector"
	configscheme "github.com/cert-manager/cert-manager/internal/apis/config/cainjector/scheme"
	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	configv1alpha1 "github.com/cert-manager/cert-manager/pkg/apis/config/cainjector/v1alpha1"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util"
)

func startCAInjector(ctx context.Context, arguments []string) error {
	options, err := injectorOptions(arguments)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme, cmapi.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	election := options.LeaderElectionConfig
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(ctrl.GetConfigOrDie(), "cainjector"), ctrl.Options{
		Scheme: scheme,
		// Secrets are watched by their metadata; a copy of each in memory would need rights and room for nothing.
		Client:                  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		LeaderElection:          election.Enabled,
		LeaderElectionNamespace: election.Namespace,
		LeaderElectionID:        "cert-manager-cainjector-leader-election",
		LeaseDuration:           &election.LeaseDuration,
		RenewDeadline:           &election.RenewDeadline,
		RetryPeriod:             &election.RetryPeriod,
		Metrics:                 metrics.Options{BindAddress: options.MetricsListenAddress},
	})
	if err != nil {
		return err
	}
	enabled := options.EnableInjectableConfig
	err = cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		Namespace:                    options.Namespace,
		IgnoreNamespaces:             options.IgnoreNamespaces,
		EnableCertificatesDataSource: options.EnableDataSourceConfig.Certificates,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   enabled.MutatingWebhookConfigurations,
			cainjector.ValidatingWebhookConfigurationName: enabled.ValidatingWebhookConfigurations,
			cainjector.APIServiceName:                     enabled.APIServices,
			cainjector.CustomResourceDefinitionName:       enabled.CustomResourceDefinitions,
		},
	})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

func injectorOptions(arguments []string) (*config.CAInjectorConfiguration, error) {
	scheme, _, err := configscheme.NewSchemeAndCodecs()
	if err != nil {
		return nil, err
	}
	versioned, options := &configv1alpha1.CAInjectorConfiguration{}, &config.CAInjectorConfiguration{}
	scheme.Default(versioned)
	if err := scheme.Convert(versioned, options, nil); err != nil {
		return nil, err
	}
	flags := pflag.NewFlagSet("cainjector", pflag.ContinueOnError)
	logf.AddFlags(&options.Logging, flags)
	election := &options.LeaderElectionConfig
	flags.BoolVar(&election.Enabled, "leader-elect", election.Enabled, "let one of several work at a time")
	flags.StringVar(&election.Namespace, "leader-election-namespace", election.Namespace, "where the lease is")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	return options, logf.ValidateAndApply(&options.Logging)
}
