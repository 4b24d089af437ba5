// Validates the manifests of a bundle for the Operator Lifecycle Manager, as `operator-sdk bundle validate` does.
package main

import (
	"fmt"
	"os"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
)

func main() {
	bundle, err := manifests.GetBundleFromDir(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	validators := validation.DefaultBundleValidators.WithValidators(
		validation.ObjectValidator,
		validation.OperatorHubV2Validator,
		validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator,
		validation.GoodPracticesValidator,
		validation.AlphaDeprecatedAPIsValidator,
	)
	for _, result := range validators.Validate(bundle.ObjectsToValidate()...) {
		for _, finding := range append(result.Errors, result.Warnings...) {
			fmt.Println(finding.Error())
		}
	}
	fmt.Fprintf(os.Stderr, "%d objects, %d definitions\n", len(bundle.Objects), len(bundle.V1CRDs))
}
