package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	config "github.com/cert-manager/cert-manager/internal/apis/config/controller"
	configscheme "github.com/cert-manager/cert-manager/internal/apis/config/controller/scheme"
	defaults "github.com/cert-manager/cert-manager/internal/apis/config/controller/v1alpha1"
	configv1alpha1 "github.com/cert-manager/cert-manager/pkg/apis/config/controller/v1alpha1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/healthz"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
	dnsutil "github.com/cert-manager/cert-manager/pkg/issuer/acme/dns/util"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/vault"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
)

func startController(ctx context.Context, arguments []string) error {
	options, err := controllerOptions(arguments)
	if err != nil {
		return err
	}
	forContexts, err := contextOptions(options)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	factory, err := controller.NewContextFactory(ctx, forContexts)
	if err != nil {
		return err
	}
	base, err := factory.Build()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", options.HealthzListenAddress)
	if err != nil {
		return err
	}
	health := healthz.NewServer(options.LeaderElectionConfig.HealthzTimeout)
	group.Go(func() error { return health.Start(ctx, listener) })
	metricsListener, err := net.Listen("tcp", options.MetricsListenAddress)
	if err != nil {
		return err
	}
	metrics := base.Metrics.NewServer(metricsListener)
	group.Go(func() error {
		<-ctx.Done()
		return metrics.Close()
	})
	group.Go(func() error {
		if err := metrics.Serve(metricsListener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	if options.LeaderElectionConfig.Enabled {
		elected := make(chan struct{})
		group.Go(func() error { return elect(ctx, base, options, health.LeaderHealthzAdaptor, elected) })
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-elected:
		}
	}
	if err := runControllers(ctx, group, factory, options); err != nil {
		return err
	}
	base.SharedInformerFactory.Start(ctx.Done())
	base.KubeSharedInformerFactory.Start(ctx.Done())
	if options.EnableGatewayAPI {
		base.GWShared.Start(ctx.Done())
	}
	base.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	return group.Wait()
}

// elect holds the lease until the context ends; whoever loses it ends.
func elect(
	ctx context.Context,
	base *controller.Context,
	options *config.ControllerConfiguration,
	adaptor *leaderelection.HealthzAdaptor,
	elected chan struct{},
) error {
	identity, err := os.Hostname()
	if err != nil {
		return err
	}
	lock, err := resourcelock.New(
		resourcelock.LeasesResourceLock,
		options.LeaderElectionConfig.Namespace,
		"cert-manager-controller",
		base.Client.CoreV1(),
		base.Client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: identity, EventRecorder: base.Recorder},
	)
	if err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   options.LeaderElectionConfig.LeaseDuration,
		RenewDeadline:   options.LeaderElectionConfig.RenewDeadline,
		RetryPeriod:     options.LeaderElectionConfig.RetryPeriod,
		ReleaseOnCancel: true,
		WatchDog:        adaptor,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(elected) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	if ctx.Err() == nil {
		return errors.New("another controller has the lease")
	}
	return nil
}

func runControllers(
	ctx context.Context, group *errgroup.Group, factory *controller.ContextFactory, options *config.ControllerConfiguration,
) error {
	enabled := slices.Clone(defaults.DefaultEnabledControllers)
	if options.EnableGatewayAPI {
		enabled = append(enabled, "gateway-shim")
	}
	for name, build := range controller.Known() {
		if !slices.Contains(enabled, name) {
			continue
		}
		control, err := build(factory)
		if err != nil {
			return err
		}
		group.Go(func() error {
			return control.Run(options.NumberOfConcurrentWorkers, logf.NewContext(ctx, logf.FromContext(ctx), name))
		})
	}
	return nil
}

func controllerOptions(arguments []string) (*config.ControllerConfiguration, error) {
	scheme, _, err := configscheme.NewSchemeAndCodecs()
	if err != nil {
		return nil, err
	}
	versioned, options := &configv1alpha1.ControllerConfiguration{}, &config.ControllerConfiguration{}
	scheme.Default(versioned)
	if err := scheme.Convert(versioned, options, nil); err != nil {
		return nil, err
	}
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	logf.AddFlags(&options.Logging, flags)
	text := func(target *string, name, usage string) { flags.StringVar(target, name, *target, usage) }
	names := func(target *[]string, name, usage string) { flags.StringSliceVar(target, name, *target, usage) }
	election := &options.LeaderElectionConfig
	flags.BoolVar(&election.Enabled, "leader-elect", election.Enabled, "let one of several work at a time")
	text(&election.Namespace, "leader-election-namespace", "where the lease is")
	text(&options.KubeConfig, "kubeconfig", "of the cluster, if it is another one")
	text(&options.ClusterResourceNamespace, "cluster-resource-namespace", "where Secrets of ClusterIssuers are")
	flags.IntVar(&options.MaxConcurrentChallenges, "max-concurrent-challenges", options.MaxConcurrentChallenges, "limit")
	flags.BoolVar(&options.EnableGatewayAPI, "enable-gateway-api", options.EnableGatewayAPI, "read Gateways")
	text(&options.ACMEHTTP01Config.SolverImage, "acme-http01-solver-image", "image of pods that solve challenges")
	names(&options.ACMEHTTP01Config.SolverNameservers, "acme-http01-solver-nameservers", "whom a self-check asks")
	names(&options.ACMEDNS01Config.RecursiveNameservers, "dns01-recursive-nameservers", "whom a self-check asks")
	flags.BoolVar(
		&options.ACMEDNS01Config.RecursiveNameserversOnly, "dns01-recursive-nameservers-only", false, "ask nobody else",
	)
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	return options, logf.ValidateAndApply(&options.Logging)
}

func contextOptions(options *config.ControllerConfiguration) (controller.ContextOptions, error) {
	http01, dns01 := options.ACMEHTTP01Config, options.ACMEDNS01Config
	quantities := make([]resource.Quantity, 0, 4)
	for _, text := range []string{
		http01.SolverResourceRequestCPU, http01.SolverResourceRequestMemory,
		http01.SolverResourceLimitsCPU, http01.SolverResourceLimitsMemory,
	} {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return controller.ContextOptions{}, err
		}
		quantities = append(quantities, quantity)
	}
	nameservers := dns01.RecursiveNameservers
	if len(nameservers) == 0 {
		nameservers = dnsutil.RecursiveNameservers
	}
	return controller.ContextOptions{
		Kubeconfig:         options.KubeConfig,
		KubernetesAPIQPS:   options.KubernetesAPIQPS,
		KubernetesAPIBurst: options.KubernetesAPIBurst,
		Namespace:          options.Namespace,
		IssuerOptions: controller.IssuerOptions{
			ClusterResourceNamespace:        options.ClusterResourceNamespace,
			ClusterIssuerAmbientCredentials: options.ClusterIssuerAmbientCredentials,
			IssuerAmbientCredentials:        options.IssuerAmbientCredentials,
		},
		ACMEOptions: controller.ACMEOptions{
			HTTP01SolverImage:                 http01.SolverImage,
			HTTP01SolverResourceRequestCPU:    quantities[0],
			HTTP01SolverResourceRequestMemory: quantities[1],
			HTTP01SolverResourceLimitsCPU:     quantities[2],
			HTTP01SolverResourceLimitsMemory:  quantities[3],
			ACMEHTTP01SolverRunAsNonRoot:      http01.SolverRunAsNonRoot,
			HTTP01SolverRuntimeClassName:      http01.SolverRuntimeClassName,
			HTTP01SolverNameservers:           http01.SolverNameservers,
			HTTP01SolverExtraLabels:           http01.SolverExtraLabels,
			DNS01CheckAuthoritative:           !dns01.RecursiveNameserversOnly,
			DNS01Nameservers:                  nameservers,
			DNS01CheckRetryPeriod:             dns01.CheckRetryPeriod,
		},
		IngressShimOptions: controller.IngressShimOptions{
			DefaultIssuerName:                 options.IngressShimConfig.DefaultIssuerName,
			DefaultIssuerKind:                 options.IngressShimConfig.DefaultIssuerKind,
			DefaultIssuerGroup:                options.IngressShimConfig.DefaultIssuerGroup,
			DefaultAutoCertificateAnnotations: options.IngressShimConfig.DefaultAutoCertificateAnnotations,
			ExtraCertificateAnnotations:       options.IngressShimConfig.ExtraCertificateAnnotations,
			GatewayAPIExtraProtocols:          sets.New(options.GatewayAPIConfig.ExtraProtocols...),
		},
		CertificateOptions: controller.CertificateOptions{
			EnableOwnerRef:                           options.EnableCertificateOwnerRef,
			CopiedAnnotationPrefixes:                 options.CopiedAnnotationPrefixes,
			CertificateRequestMinimumBackoffDuration: options.CertificateRequestMinimumBackoffDuration,
			CertificateRequestMaximumBackoffDuration: options.CertificateRequestMaximumBackoffDuration,
		},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: options.MaxConcurrentChallenges},
		ConfigOptions:    controller.ConfigOptions{EnableGatewayAPI: options.EnableGatewayAPI},
	}, nil
}
