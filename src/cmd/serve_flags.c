#include "cmd/serve_flags.h"

#include <string.h>

#include "cmd/command.h"
#include "cmd/number.h"
#include "model/plan.h"

enum {
  FLAG_HOST = 2000,
  FLAG_PORT,
  FLAG_SOCKET,
  FLAG_API_KEY_FILE,
  FLAG_INSECURE,
  FLAG_TLS_CERT,
  FLAG_TLS_KEY,
  FLAG_CORS_ORIGIN,
  FLAG_MAX_BODY,
  FLAG_MAX_HEAD,
  FLAG_MAX_HEADERS,
  FLAG_MAX_CONNECTIONS,
  FLAG_MAX_RESPONSES,
  FLAG_MAX_RESPONSE_MEMORY,
  FLAG_REQUEST_TIMEOUT,
  FLAG_IDLE_TIMEOUT,
  FLAG_WRITE_TIMEOUT,
  FLAG_DROP_PROMPT_LINES,
  FLAG_ALIAS,
  FLAG_NO_PAGE,
};

const char serve_manual[] =
    "Usage: kaiju serve [MODEL] [options]\n"
    "\n"
    "Serves the checkpoint in directory MODEL (default: the shipped kaiju-mini) over the OpenAI API, alone or as the "
    "lead\n"
    "of a pipeline of nodes.\n"
    "\n"
    "Where it listens, and to whom:\n"
    "  --host ADDRESS         where the HTTP server listens (default: 127.0.0.1)\n"
    "  --port N               (default: 8080; 0: any free one)\n"
    "  --socket PATH          listen on a unix socket that only this user may open; on --host and --port only if one "
    "of\n"
    "                         them is given too\n"
    "  --api-key-file FILE    keys that clients must have, one a line; kaiju keygen FILE makes one\n"
    "  --insecure             answer without a key whoever can reach an address that is not loopback\n"
    "  --tls-cert FILE        speak TLS with this certificate (PEM, with those that lead to a root behind it)\n"
    "  --tls-key FILE         and its private key\n"
    "  --cors-origin LIST     pages whose scripts may use the server, https://chat.example,http://localhost:3000, or "
    "*\n"
    "                         (default: none)\n"
    "  --no-page              do not serve the page for browsers at /\n"
    "Limits:\n"
    "  --max-body SIZE        bytes of a request's body (default: 32MiB)\n"
    "  --max-head SIZE        bytes of a request's line and headers (default: 32KiB)\n"
    "  --max-headers N        headers of a request (default: 100)\n"
    "  --max-connections N    open at once (default: 1024); more wait\n"
    "  --request-timeout S    seconds from a request's first byte to its last (default: 60)\n"
    "  --idle-timeout S       seconds that a connection may wait for its next request (default: 75)\n"
    "  --write-timeout S      seconds that a client may take nothing of its answer (default: 60)\n"
    "  --max-responses N      kept for a later previous_response_id (default: 1024; 0: none)\n"
    "  --max-response-memory SIZE\n"
    "                         of these responses with their conversations (default: 64MiB); the least recently used "
    "are\n"
    "                         forgotten\n"
    "Model and prompts:\n"
    "  --alias NAME,NAME      further names that the model goes by in /v1/models and in answers\n"
    "  --drop-prompt-lines REGEX\n"
    "                         leave out lines of system messages that match, such as a header with the time: what "
    "comes\n"
    "                         behind them stays in the prefix cache from one request to the next\n"
    "Engine:\n";
const char serve_manual_rest[] = ENGINE_FLAGS_MANUAL "  --help                 this text\n";

const struct option serve_options[] = {{"host", required_argument, NULL, FLAG_HOST},
                                       {"port", required_argument, NULL, FLAG_PORT},
                                       {"socket", required_argument, NULL, FLAG_SOCKET},
                                       {"api-key-file", required_argument, NULL, FLAG_API_KEY_FILE},
                                       {"insecure", no_argument, NULL, FLAG_INSECURE},
                                       {"tls-cert", required_argument, NULL, FLAG_TLS_CERT},
                                       {"tls-key", required_argument, NULL, FLAG_TLS_KEY},
                                       {"cors-origin", required_argument, NULL, FLAG_CORS_ORIGIN},
                                       {"max-body", required_argument, NULL, FLAG_MAX_BODY},
                                       {"max-head", required_argument, NULL, FLAG_MAX_HEAD},
                                       {"max-headers", required_argument, NULL, FLAG_MAX_HEADERS},
                                       {"max-connections", required_argument, NULL, FLAG_MAX_CONNECTIONS},
                                       {"max-responses", required_argument, NULL, FLAG_MAX_RESPONSES},
                                       {"max-response-memory", required_argument, NULL, FLAG_MAX_RESPONSE_MEMORY},
                                       {"request-timeout", required_argument, NULL, FLAG_REQUEST_TIMEOUT},
                                       {"idle-timeout", required_argument, NULL, FLAG_IDLE_TIMEOUT},
                                       {"write-timeout", required_argument, NULL, FLAG_WRITE_TIMEOUT},
                                       {"drop-prompt-lines", required_argument, NULL, FLAG_DROP_PROMPT_LINES},
                                       {"alias", required_argument, NULL, FLAG_ALIAS},
                                       {"no-page", no_argument, NULL, FLAG_NO_PAGE},
                                       {"help", no_argument, NULL, COMMAND_HELP},
                                       ENGINE_LONG_OPTIONS,
                                       {NULL, 0, NULL, 0}};

void serve_flags_init(struct serve_flags *flags) {
  *flags = (struct serve_flags){.port = 8080};
  engine_flags_init(&flags->engine);
}

void serve_flags_free(struct serve_flags *flags) {
  engine_flags_free(&flags->engine);
  prompt_lines_free(flags->dropped_lines);
  api_keys_free(flags->keys);
  cors_free(flags->cors);
  tls_free(flags->tls);
}

static int take_size(const char *option, const char *value, uint64_t least, uint64_t most, size_t *size,
                     struct kj_error *error) {
  uint64_t bytes;
  if (plan_parse_size(value, &bytes, error)) return kj_fail_context(error, "%s", option);
  if (bytes < least || bytes > most)
    return kj_fail(error, KJ_INVALID, "%s \"%s\": between %llu and %llu bytes are needed", option, value,
                   (unsigned long long)least, (unsigned long long)most);
  *size = (size_t)bytes;
  return 0;
}

static int take_count(const char *option, const char *value, uint32_t most, size_t *count, struct kj_error *error) {
  uint32_t number;
  int code = cmd_number(option, value, 1, most, &number, error);
  if (!code) *count = number;
  return code;
}

static int take_dropped_lines(struct serve_flags *flags, const char *value, struct kj_error *error) {
  prompt_lines_free(flags->dropped_lines);
  flags->dropped_lines = NULL;
  return prompt_lines_compile(&flags->dropped_lines, value, error) ? kj_fail_context(error, "--drop-prompt-lines") : 0;
}

static int take_keys(struct serve_flags *flags, const char *value, struct kj_error *error) {
  api_keys_free(flags->keys);
  flags->keys = NULL;
  return api_keys_load(&flags->keys, value, error) ? kj_fail_context(error, "--api-key-file") : 0;
}

static int take_origins(struct serve_flags *flags, const char *value, struct kj_error *error) {
  cors_free(flags->cors);
  flags->cors = NULL;
  return cors_create(&flags->cors, value, error) ? kj_fail_context(error, "--cors-origin") : 0;
}

static int take_responses(struct http_limits *limits, const char *value, struct kj_error *error) {
  uint32_t count;
  int code = cmd_number("--max-responses", value, 0, 10000000, &count, error);
  if (code) return code;
  limits->no_responses = count == 0;
  limits->max_responses = count;
  return 0;
}

static int take_limit(struct http_limits *limits, int option, const char *value, struct kj_error *error) {
  switch (option) {
    case FLAG_MAX_BODY:
      return take_size("--max-body", value, 1024, (uint64_t)1 << 32, &limits->max_body, error);
    case FLAG_MAX_HEAD:
      return take_size("--max-head", value, 1024, 16 << 20, &limits->max_head, error);
    case FLAG_MAX_HEADERS:
      return take_count("--max-headers", value, 100000, &limits->max_headers, error);
    case FLAG_MAX_CONNECTIONS:
      return take_count("--max-connections", value, 1000000, &limits->max_connections, error);
    case FLAG_MAX_RESPONSES:
      return take_responses(limits, value, error);
    case FLAG_MAX_RESPONSE_MEMORY:
      return take_size("--max-response-memory", value, 1 << 16, (uint64_t)1 << 40, &limits->max_response_bytes, error);
    case FLAG_REQUEST_TIMEOUT:
      return cmd_seconds("--request-timeout", value, &limits->request_deadline, error);
    case FLAG_IDLE_TIMEOUT:
      return cmd_seconds("--idle-timeout", value, &limits->idle_timeout, error);
    default:
      return cmd_seconds("--write-timeout", value, &limits->write_timeout, error);
  }
}

int serve_flags_take(void *context, int option, const char *value, struct kj_error *error) {
  struct serve_flags *flags = context;
  switch (option) {
    case FLAG_HOST:
      flags->host = value;
      return 0;
    case FLAG_PORT:
      flags->port_given = true;
      return cmd_number("--port", value, 0, 65535, &flags->port, error);
    case FLAG_SOCKET:
      flags->socket_path = value;
      return 0;
    case FLAG_API_KEY_FILE:
      return take_keys(flags, value, error);
    case FLAG_INSECURE:
      flags->insecure = true;
      return 0;
    case FLAG_TLS_CERT:
      flags->certificate_file = value;
      return 0;
    case FLAG_TLS_KEY:
      flags->tls_key_file = value;
      return 0;
    case FLAG_CORS_ORIGIN:
      return take_origins(flags, value, error);
    case FLAG_MAX_BODY:
    case FLAG_MAX_HEAD:
    case FLAG_MAX_HEADERS:
    case FLAG_MAX_CONNECTIONS:
    case FLAG_MAX_RESPONSES:
    case FLAG_MAX_RESPONSE_MEMORY:
    case FLAG_REQUEST_TIMEOUT:
    case FLAG_IDLE_TIMEOUT:
    case FLAG_WRITE_TIMEOUT:
      return take_limit(&flags->limits, option, value, error);
    case FLAG_NO_PAGE:
      flags->without_page = true;
      return 0;
    case FLAG_ALIAS:
      flags->aliases = value;
      return 0;
    case FLAG_DROP_PROMPT_LINES:
      return take_dropped_lines(flags, value, error);
    default:
      return engine_flags_take(&flags->engine, option, value, error);
  }
}

int serve_flags_prepare(struct serve_flags *flags, struct kj_error *error) {
  if (!flags->host && (!flags->socket_path || flags->port_given)) flags->host = "127.0.0.1";
  if (!flags->certificate_file != !flags->tls_key_file)
    return kj_fail(error, KJ_INVALID, "%s needs %s too", flags->certificate_file ? "--tls-cert" : "--tls-key",
                   flags->certificate_file ? "--tls-key" : "--tls-cert");
  if (flags->certificate_file && !flags->host)
    return kj_fail(error, KJ_INVALID, "TLS is spoken on a port, not on a unix socket: give --port too");
  if (flags->keys && flags->insecure)
    return kj_fail(error, KJ_INVALID, "--insecure and --api-key-file contradict each other");
  if (flags->certificate_file && tls_create(&flags->tls, flags->certificate_file, flags->tls_key_file, error))
    return error->code;
  return engine_flags_prepare(&flags->engine, error);
}
