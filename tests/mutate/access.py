"""Mutants of who is let in."""
TOKEN = "daemon/access/token.c"
CHECK = "daemon/config/config.c"

MUTANTS = [
    ("token-compares-eight-bytes", TOKEN, "digest, IDENTITY_TOKEN_BYTES) == 0)", "digest, 8) == 0)",
     ["unit/gate"]),
    ("token-of-another-name", TOKEN,
     "	return token && strcmp(token->name, strchr(identity->text, ':') + 1) == 0;",
     "	return token;", ["unit/gate"]),
    ("token-file-too-large", TOKEN, "	else if (bytes > FILE_BYTES_MAX)", "	else if (false)",
     ["unit/gate"]),
    ("config-insecure-off-loopback", CHECK, "	} else if (address->loopback && config->insecure) {",
     "	} else if (config->insecure) {", ["unit/config"]),
    ("config-plain-on-loopback-without-insecure", CHECK,
     "	} else if (address->loopback && config->insecure) {", "	} else if (address->loopback) {",
     ["unit/config"]),
    ("config-tls-that-knows-no-clients", CHECK,
     "	if (listened->tls && !config->tls_client_ca && !config->tokens)", "	if (false)",
     ["unit/config"]),
    ("config-http-off-loopback", CHECK,
     "	if (config->http.socket_bytes && !config->http.loopback) {", "	if (false) {",
     ["unit/config"]),
    ("config-authentication-that-plain-tcp-passes-by", CHECK,
     "	if (listened->plain && !listened->tls && (config->tls_client_ca || config->tokens))",
     "	if (false)", ["unit/config"]),
    ("config-tls-on-no-address", CHECK, "	if (config->tls_cert && !listened->tls)", "	if (false)",
     ["unit/config"]),
]
