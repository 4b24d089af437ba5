// Package venafi has a name alone: the client for that issuer is a module whose version nobody serves here.
package venafi

// CSRControllerName is asked for by the defaults of the configuration; no controller registers under it.
const CSRControllerName = "certificatesigningrequests-issuer-venafi"
