"""Additions of a user to Horizon's settings: data of known names, since some settings of Django name code to run."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ... import oslo
from ...plan import SpecError

SECTION = "local_settings"
"""The only section of `spec.config`, named after Horizon's file of settings."""
_PATH = f"spec.config.{SECTION}"
HORIZON_CONFIG = "HORIZON_CONFIG"
_DEPTH = 8
"""Values within values, of which Horizon's settings have four."""

_SETTINGS = """
ALLOWED_PRIVATE_SUBNET_CIDR ALLOW_USERS_CHANGE_EXPIRED_PASSWORD API_RESULT_LIMIT API_RESULT_PAGE_SIZE CONSOLE_TYPE
CREATE_IMAGE_DEFAULTS CREATE_INSTANCE_FLAVOR_SORT DEFAULT_BOOT_SOURCE DEFAULT_SERVICE_REGIONS DROPDOWN_MAX_ITEMS
ENABLE_CLIENT_TOKEN ENFORCE_PASSWORD_CHECK EXTERNAL_MONITORING FILTER_DATA_FIRST
HEAT_TEMPLATE_GENERATOR_API_PARALLEL HEAT_TEMPLATE_GENERATOR_API_TIMEOUT HORIZON_CONFIG IMAGES_ALLOW_LOCATION
IMAGES_LIST_FILTER_TENANTS IMAGE_CUSTOM_PROPERTY_TITLES IMAGE_RESERVED_CUSTOM_PROPERTIES INSTANCE_LOG_LENGTH
KEYSTONE_PROVIDER_IDP_ID KEYSTONE_PROVIDER_IDP_NAME KUBECONFIG_CERTIFICATE_AUTHORITY_DATA KUBECONFIG_ENABLED
KUBECONFIG_KUBERNETES_URL LANGUAGES LANGUAGE_CODE LAUNCH_INSTANCE_DEFAULTS MEMOIZED_MAX_SIZE_DEFAULT
OPENSTACK_CINDER_FEATURES OPENSTACK_CLOUDS_YAML_NAME OPENSTACK_CLOUDS_YAML_PROFILE
OPENSTACK_ENABLE_PASSWORD_RETRIEVE OPENSTACK_HEAT_STACK OPENSTACK_HYPERVISOR_FEATURES OPENSTACK_IMAGE_BACKEND
OPENSTACK_INSTANCE_RETRIEVE_IP_ADDRESSES OPENSTACK_KEYSTONE_ADMIN_ROLES OPENSTACK_KEYSTONE_BACKEND
OPENSTACK_KEYSTONE_DEFAULT_DOMAIN OPENSTACK_KEYSTONE_DEFAULT_ROLE OPENSTACK_KEYSTONE_DOMAIN_CHOICES
OPENSTACK_KEYSTONE_DOMAIN_DROPDOWN OPENSTACK_KEYSTONE_FEDERATION_MANAGEMENT OPENSTACK_KEYSTONE_MFA_TOTP_ENABLED
OPENSTACK_KEYSTONE_MULTIDOMAIN_SUPPORT OPENSTACK_NEUTRON_NETWORK OPENSTACK_SERVER_DEFAULT_USER_DATA
OPENSTACK_USE_SIMPLE_TENANT_USAGE OPERATION_LOG_ENABLED OVERVIEW_DAYS_RANGE
PASSWORD_EXPIRES_WARNING_THRESHOLD_DAYS PROJECT_TABLE_EXTRA_INFO SECURITY_GROUP_RULES
SESSION_EXPIRE_AT_BROWSER_CLOSE SESSION_REFRESH SESSION_TIMEOUT SHOW_OPENRC_FILE SHOW_OPENSTACK_CLOUDS_YAML
SIMULTANEOUS_SESSIONS SITE_BRANDING_LINK SWIFT_FILE_TRANSFER_CHUNK_SIZE SWIFT_STORAGE_POLICY_DISPLAY_NAMES
SYSTEM_SCOPE_SERVICES TIME_ZONE TOKEN_TIMEOUT_MARGIN USER_MENU_LINKS USER_TABLE_EXTRA_INFO WEBSSO_INITIAL_CHOICE
"""
ALLOWED = frozenset(_SETTINGS.split())
"""Settings that are data; https://docs.openstack.org/horizon/2025.1/configuration/settings.html describes them."""

_IN_CONFIG = """
ajax_queue_limit auto_fade_alerts bug_url disable_password_reveal help_url modal_backdrop password_autocomplete
password_validator simple_ip_management
"""
ALLOWED_IN_CONFIG = frozenset(_IN_CONFIG.split())
"""The same within HORIZON_CONFIG."""

_IN_SETTINGS = {
    "ALLOWED_PRIVATE_SUBNET_CIDR": "ipv4 ipv6",
    "CREATE_IMAGE_DEFAULTS": "image_visibility",
    "CREATE_INSTANCE_FLAVOR_SORT": "key reverse",
    "LAUNCH_INSTANCE_DEFAULTS": """config_drive create_volume default_availability_zone disable_image
    disable_instance_snapshot disable_volume disable_volume_snapshot enable_metadata enable_net_ports
    enable_scheduler_hints hide_create_volume""",
    "OPENSTACK_CINDER_FEATURES": "enable_backup",
    "OPENSTACK_HEAT_STACK": "enable_user_pass",
    "OPENSTACK_HYPERVISOR_FEATURES": "can_set_mount_point can_set_password enable_quotas requires_keypair",
    "OPENSTACK_IMAGE_BACKEND": "image_formats",
    "OPENSTACK_KEYSTONE_BACKEND": """can_edit_domain can_edit_group can_edit_project can_edit_role can_edit_user
    name""",
    "OPENSTACK_NEUTRON_NETWORK": """default_dns_nameservers enable_auto_allocated_network enable_distributed_router
    enable_fip_topology_check enable_ha_router enable_ipv6 enable_quotas enable_rbac_policy enable_router
    extra_provider_types physical_networks segmentation_id_range show_agents_column supported_provider_types""",
}
KEYS: Mapping[str, frozenset[str]] = {name: frozenset(keys.split()) for name, keys in _IN_SETTINGS.items()}
"""Keys of settings that are mappings with keys of Horizon's own. It ignores others."""

OWNED: Mapping[str, str] = {
    "ALLOWED_HOSTS": "set spec.expose.host",
    "AVAILABLE_REGIONS": "set spec.otherKeystones",
    "AVAILABLE_THEMES": "set spec.branding",
    "CACHES": "set spec.cache",
    "CSRF_COOKIE_SECURE": "it follows from spec.tls and spec.expose",
    "DEFAULT_THEME": "set spec.branding.theme",
    "DISALLOW_IFRAME_EMBED": "pages are never framed by other sites",
    "HORIZON_IMAGES_UPLOAD_MODE": "set spec.imageUpload",
    "LOGGING": "programs log to the console",
    "OPERATION_LOG_OPTIONS": "it masks passwords in logs",
    "OPENSTACK_ENDPOINT_TYPE": "it follows from spec.otherKeystones",
    "OPENSTACK_KEYSTONE_URL": "set spec.keystoneRef",
    "OPENSTACK_SSL_CACERT": "set spec.otherKeystones[].caSecretRef",
    "OPENSTACK_SSL_NO_VERIFY": "certificates are always verified",
    "SECRET_KEY": "raise spec.secretKeyGeneration to replace it",
    "SECRET_KEY_FALLBACKS": "raise spec.secretKeyGeneration to replace the key",
    "SECURE_PROXY_SSL_HEADER": "it follows from spec.tls and spec.expose",
    "SELECTABLE_THEMES": "set spec.branding",
    "SESSION_COOKIE_HTTPONLY": "scripts never read the session",
    "SESSION_COOKIE_SECURE": "it follows from spec.tls and spec.expose",
    "SESSION_ENGINE": "sessions are in Memcached; set spec.cache",
    "SITE_BRANDING": "set spec.branding.title",
    "STATIC_ROOT": "the image fixes the paths of files",
    "STATIC_URL": "the dashboard is at the root of its host",
    "WEBROOT": "the dashboard is at the root of its host",
    "WEBSSO_CHOICES": "set identity providers in spec.federation of the Keystone",
    "WEBSSO_ENABLED": "it follows from Keystone's spec.federation",
    "WEBSSO_IDP_MAPPING": "it follows from Keystone's spec.federation",
    "WEBSSO_KEYSTONE_URL": "it is the public URL of Keystone",
}
"""Settings that the operator sets, each with what to do instead."""


def additions(config: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a user's settings. Raise SpecError for a name that is not known, or a value that is not possible."""
    for section in config:
        if section != SECTION:
            message = f"Horizon has no sections; write its settings in config.{SECTION}"
            raise SpecError(f"spec.config.{section!r}", message)
    values = dict(config.get(SECTION, {}))
    for name, value in values.items():
        _check(name, value)
    return values


def unknown_keys(config: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the path below `spec` of each key within a setting that Horizon does not know, and what to do."""
    nearest = oslo.NearestNames()
    for name, value in config.get(SECTION, {}).items():
        choices = KEYS.get(name)
        if choices is None or not isinstance(value, Mapping):
            continue
        for key in sorted(cast("Mapping[str, Any]", value).keys() - choices):
            near = nearest.of(key, sorted(choices))
            advice = f"did you mean {near}?" if near else f"its keys are {', '.join(sorted(choices))}"
            yield f"config.{SECTION}.{name}.{key}", f"Horizon knows no such key of {name}; {advice}"


def _check(name: str, value: Any) -> None:
    if name in OWNED:
        raise SpecError(f"{_PATH}.{name}", f"the operator sets it: {OWNED[name]}; remove it from config")
    if name not in ALLOWED:
        near = difflib.get_close_matches(name, sorted(ALLOWED | OWNED.keys()), n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        message = "not a setting that config may have: only settings of panels and logins are allowed"
        raise SpecError(f"{_PATH}.{name!r}", f"{message}{meant}")
    if not _is_data(value, _DEPTH):
        raise SpecError(f"{_PATH}.{name}", f"its values are nested more than {_DEPTH} times; write it flatter")
    if name == HORIZON_CONFIG:
        _check_config(value)
    for path, link in _links(name, value):
        # Others are scripts, which would run in the pages of users.
        if not (isinstance(link, str) and link.startswith(("https://", "http://", "/"))):
            raise SpecError(f"{_PATH}.{path}", "not a link; write a URL with https://, or a path that begins with /")
    if name == "SESSION_TIMEOUT" and not (type(value) is int and 60 <= value <= MONTH):
        raise SpecError(f"{_PATH}.{name}", f"not a number of seconds from 60 to {MONTH}, a month")


MONTH = 30 * 24 * 3600
"""Seconds after which Memcached takes a lifetime for a date."""


def _check_config(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise SpecError(f"{_PATH}.{HORIZON_CONFIG}", "not a mapping; write its settings by their names")
    for name in cast("Mapping[str, Any]", value):
        if name not in ALLOWED_IN_CONFIG:
            choices = ", ".join(sorted(ALLOWED_IN_CONFIG))
            raise SpecError(f"{_PATH}.{HORIZON_CONFIG}.{name!r}", f"not an allowed setting; choose from {choices}")


def _links(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Return the links in a setting, each with its path."""
    if name == "SITE_BRANDING_LINK":
        yield name, value
    if name == "USER_MENU_LINKS" and isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            if isinstance(each, Mapping):
                yield f"{name}[{index}].url", cast("Mapping[str, Any]", each).get("url", "/")
    if name == HORIZON_CONFIG:
        for inner, link in cast("Mapping[str, Any]", value).items():
            if inner in ("bug_url", "help_url"):
                yield f"{name}.{inner}", link


def _is_data(value: Any, depth: int) -> bool:
    """Return True if values are nested so many times at most."""
    if depth < 0:
        return False
    inner = cast("Mapping[str, Any]", value).values() if isinstance(value, Mapping) else value
    return all(_is_data(each, depth - 1) for each in inner) if isinstance(value, (Mapping, list)) else True
