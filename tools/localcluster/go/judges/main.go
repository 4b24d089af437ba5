// Says of objects what two programs of others take their state for: kstatus, by which Flux, kpt and `cli-utils` wait, and
// the health of Argo CD with the scripts of a ConfigMap argocd-cm.
//
// Reads a JSON list of objects, and writes a JSON list of answers in the same order: `judges CONFIGMAP.json < OBJECTS.json`.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"
)

// Answer has a state and a message of each judge, or the error with which one refuses the object.
type Answer struct {
	Kstatus Judgement `json:"kstatus"`
	ArgoCD  Judgement `json:"argoCD"`
}

// Judgement is what one of them says.
type Judgement struct {
	State   string `json:"state"`
	Message string `json:"message"`
	Error   string `json:"error,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	overrides, err := healthScripts(os.Args[1])
	if err != nil {
		return err
	}
	content := struct {
		Items []json.RawMessage `json:"items"`
	}{}
	if err := json.NewDecoder(os.Stdin).Decode(&content); err != nil {
		return err
	}
	answers := []Answer{}
	for _, item := range content.Items {
		// Whole numbers become int64, as from a cluster: kstatus asks for them.
		object := unstructured.Unstructured{}
		if err := object.UnmarshalJSON(item); err != nil {
			return err
		}
		answers = append(answers, Answer{kstatus(&object), argoCD(&object, overrides)})
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// healthScripts reads the overrides of a ConfigMap as Argo CD does.
func healthScripts(path string) (lua.ResourceHealthOverrides, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	configMap := struct {
		Data map[string]string `json:"data"`
	}{}
	if err := yaml.Unmarshal(content, &configMap); err != nil {
		return nil, err
	}
	overrides := map[string]v1alpha1.ResourceOverride{}
	err = yaml.Unmarshal([]byte(configMap.Data["resource.customizations"]), &overrides)
	return overrides, err
}

func kstatus(object *unstructured.Unstructured) Judgement {
	result, err := status.Compute(object)
	if err != nil {
		return Judgement{Error: err.Error()}
	}
	return Judgement{State: result.Status.String(), Message: result.Message}
}

// argoCD takes an object that is being deleted for Progressing before it looks at a script.
func argoCD(object *unstructured.Unstructured, overrides lua.ResourceHealthOverrides) Judgement {
	result, err := health.GetResourceHealth(object, overrides)
	if err != nil {
		return Judgement{Error: err.Error()}
	}
	if result == nil {
		return Judgement{}
	}
	return Judgement{State: string(result.Status), Message: result.Message}
}
