#include "http/tls.h"

#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

struct tls {
  SSL_CTX *context;
};

/* OpenSSL's reason for what has just failed. */
static int fail(struct kj_error *error, const char *path, const char *problem) {
  unsigned long number = ERR_peek_last_error();
  const char *reason = number ? ERR_reason_error_string(number) : NULL;
  ERR_clear_error();
  return kj_fail(error, KJ_INVALID, "%s: %s%s%s%s", path, problem, reason ? " (" : "", reason ? reason : "",
                 reason ? ")" : "");
}

/* That it is a file which can be read, and, of a key, not by everybody. */
static int check_file(const char *path, bool secret, struct kj_error *error) {
  struct stat status;
  int file;
  int code = file_open(&file, &status, path, error);
  if (code) return code;
  close(file);
  /* A group may read it: Debian's ssl-cert is one. */
  if (secret && (status.st_mode & S_IRWXO))
    return kj_fail(error, KJ_INVALID,
                   "%s: everybody may read the TLS key (permissions %04o); run `chmod 600 %s`, and make a new key if "
                   "someone may have seen it",
                   path, (unsigned)(status.st_mode & 07777), path);
  return 0;
}

/* A server cannot ask for a passphrase. */
static int no_passphrase(char *buffer, int size, int writing, void *asked) {
  (void)buffer, (void)size, (void)writing;
  *(bool *)asked = true;
  return -1;
}

static int use_files(SSL_CTX *context, const char *certificate_file, const char *key_file, struct kj_error *error) {
  bool passphrase = false;
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context, &passphrase);
  if (SSL_CTX_use_certificate_chain_file(context, certificate_file) != 1)
    return fail(error, certificate_file, "holds no certificate in PEM format");
  if (SSL_CTX_use_PrivateKey_file(context, key_file, SSL_FILETYPE_PEM) != 1) {
    if (passphrase)
      return fail(error, key_file, "the TLS key is encrypted with a passphrase: write it without one, readable by you");
    bool other = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
    return fail(error, key_file, other ? "the TLS key is not that of the certificate" : "holds no private key in PEM");
  }
  if (SSL_CTX_check_private_key(context) != 1)
    return fail(error, key_file, "the TLS key is not that of the certificate");
  SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
  X509 *certificate = SSL_CTX_get0_certificate(context);
  if (certificate && X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
    log_warning("%s: the certificate has expired: clients will refuse it", certificate_file);
  return 0;
}

/* Of what the client offers, HTTP/1.1. One that offers only others gets HTTP/1.1 without a word about it. */
static int choose_protocol(SSL *session, const unsigned char **chosen, unsigned char *chosen_length,
                           const unsigned char *offered, unsigned length, void *context) {
  static const unsigned char spoken[] = "\x08http/1.1";
  unsigned char *match = NULL;
  (void)session, (void)context;
  if (SSL_select_next_proto(&match, chosen_length, spoken, sizeof spoken - 1, offered, length) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *chosen = match;
  return SSL_TLSEXT_ERR_OK;
}

int tls_create(struct tls **result, const char *certificate_file, const char *key_file, struct kj_error *error) {
  *result = NULL;
  int code = check_file(certificate_file, false, error);
  if (!code) code = check_file(key_file, true, error);
  if (code) return code;
  struct tls *tls = calloc(1, sizeof *tls);
  if (tls) tls->context = SSL_CTX_new(TLS_server_method());
  if (!tls || !tls->context || SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) != 1) {
    tls_free(tls);
    return kj_fail_memory(error, "TLS");
  }
  SSL_CTX_set_options(tls->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(tls->context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(tls->context, choose_protocol, NULL);
  if ((code = use_files(tls->context, certificate_file, key_file, error))) {
    tls_free(tls);
    return code;
  }
  *result = tls;
  return 0;
}

void tls_free(struct tls *tls) {
  if (!tls) return;
  SSL_CTX_free(tls->context);
  free(tls);
}

struct bufferevent *tls_accept(const struct tls *tls, struct event_base *base, int descriptor) {
  SSL *session = SSL_new(tls->context);
  if (!session) {
    ERR_clear_error();
    return NULL;
  }
  struct bufferevent *stream =
      bufferevent_openssl_socket_new(base, descriptor, session, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
  if (!stream) {
    SSL_free(session);
    return NULL;
  }
  /* A request is complete by its own framing: one who leaves without a word has left all the same. */
  bufferevent_openssl_set_allow_dirty_shutdown(stream, 1);
  return stream;
}

void tls_close_notify(struct bufferevent *stream) {
  SSL *session = bufferevent_openssl_get_ssl(stream);
  if (!session) return;
  ERR_clear_error();
  SSL_shutdown(session);
  ERR_clear_error();
}
