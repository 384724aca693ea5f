#include "link/fabric.h"

#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "link/silent.h"

enum {
  LISTENERS = 8,
  COMPLETIONS = 2048, /* more than all transfers that the connections of a hub have in progress */
  CONNECTION_DATA = 256
};

/* The rules on memory that both providers can live with: the caller registers it. */
static const int memory_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

struct fabric_device {
  char name[64];
  struct fid_domain *domain;
  struct fid_cq *completions;
  int wait;
  uint64_t next_key;
};

struct endpoint {
  struct fabric *fabric;
  struct fabric_device *device;
  struct fid_ep *handle;
  struct fid_pep *listener; /* of a request that has not been accepted yet, to which `request` belongs */
  fid_t request;
  struct address peer; /* of an accepted one */
  void *owner;
  struct endpoint *next;
};

struct fabric_request {
  struct fi_info *info;
  struct fid_pep *listener;
};

struct fabric {
  char provider[16];
  struct fid_fabric *handle;
  struct fid_eq *events;
  int wait;
  struct fabric_device devices[FABRIC_DEVICES];
  size_t device_count;
  size_t turn; /* counts the completion queues that were looked at */
  struct listener {
    struct fid_pep *handle;
    struct address bound;
    struct silent silent;
  } listeners[LISTENERS];
  size_t listener_count;
  struct endpoint *endpoints;
  struct transfer *ended, **ended_tail; /* completions that have been read ahead */
};

struct segment *segment_create(void) {
  struct segment *segment = calloc(1, sizeof *segment);
  if (!segment) return NULL;
  segment->bytes = aligned_alloc(4096, FRAME_SEGMENT);
  if (!segment->bytes) {
    free(segment);
    return NULL;
  }
  return segment;
}

void segment_free(struct segment *segment) {
  if (!segment) return;
  if (segment->registration) fi_close(&segment->registration->fid);
  free(segment->bytes);
  free(segment);
}

/* libfabric has error numbers of its own beyond errno's. */
static int errno_of(int number) {
  if (number == FI_ETRUNC) return EMSGSIZE;
  return number > 0 && number < FI_ERRNO_OFFSET ? number : EIO;
}

/* `status` is what libfabric returned: a negative errno. */
static const char *reason_of(ssize_t status) { return fi_strerror((int)-status); }

static struct fi_info *make_hints(const char *provider) {
  struct fi_info *hints = fi_allocinfo();
  if (!hints) return NULL;
  hints->caps = FI_MSG;
  hints->ep_attr->type = FI_EP_MSG;
  hints->domain_attr->mr_mode = memory_mode;
  hints->fabric_attr->prov_name = strdup(provider);
  if (!hints->fabric_attr->prov_name) {
    fi_freeinfo(hints);
    return NULL;
  }
  return hints;
}

/* Asks libfabric how to reach (or, with FI_SOURCE, listen at) an address; NULL: at any address, which tells whether the
 * provider is there at all. Returns 0 or a negative errno. */
static int find_info(const char *provider, const struct address *address, uint64_t flags, struct fi_info **info) {
  struct fi_info *hints = make_hints(provider);
  if (!hints) return -FI_ENOMEM;
  char host[ADDRESS_TEXT], port[8] = "0"; /* verbs resolves nothing without a host or a port */
  if (address) address_numeric(address, host, port);
  int status = fi_getinfo(FI_VERSION(1, 17), address ? host : NULL, port, address ? flags | FI_NUMERICHOST : FI_SOURCE,
                          hints, info);
  fi_freeinfo(hints);
  return status;
}

static int choose_provider(const char *wanted, struct fi_info **info, struct kj_error *error) {
  if (wanted && strcmp(wanted, "tcp") != 0 && strcmp(wanted, "verbs") != 0)
    return kj_fail(error, KJ_INVALID, "%.100s: no such provider; choose tcp or verbs", wanted);
  if (!wanted || strcmp(wanted, "verbs") == 0) {
    int status = find_info("verbs", NULL, 0, info);
    if (status == 0) {
      log_info("links use RDMA (provider verbs)");
      return 0;
    }
    if (wanted)
      return kj_fail(error, KJ_NOT_FOUND,
                     "provider verbs: this machine has no RDMA device that can be used (%s); use --provider tcp, or "
                     "leave the choice to Kaiju",
                     reason_of(status));
    log_info("links use provider tcp: there is no RDMA device for verbs (%s)", reason_of(status));
  }
  int status = find_info("tcp", NULL, 0, info);
  if (status != 0)
    return kj_fail(error, KJ_NOT_FOUND, "provider tcp: libfabric does not offer it (%s)", reason_of(status));
  return 0;
}

int fabric_open(struct fabric **result, const char *provider, struct kj_error *error) {
  *result = NULL;
  struct fi_info *info = NULL;
  struct fabric *fabric = calloc(1, sizeof *fabric);
  if (!fabric) return kj_fail_memory(error, "the fabric");
  fabric->ended_tail = &fabric->ended;
  int code = choose_provider(provider, &info, error);
  if (code) goto done;
  strncpy(fabric->provider, info->fabric_attr->prov_name, sizeof fabric->provider - 1);
  int status = fi_fabric(info->fabric_attr, &fabric->handle, NULL);
  if (status) {
    code = kj_fail(error, KJ_NETWORK, "provider %s: cannot open the fabric: %s", fabric->provider, reason_of(status));
    goto done;
  }
  struct fi_eq_attr attributes = {.wait_obj = FI_WAIT_FD};
  status = fi_eq_open(fabric->handle, &attributes, &fabric->events, NULL);
  if (!status) status = fi_control(&fabric->events->fid, FI_GETWAIT, &fabric->wait);
  if (status)
    code =
        kj_fail(error, KJ_NETWORK, "provider %s: cannot open the event queue: %s", fabric->provider, reason_of(status));
done:
  fi_freeinfo(info);
  if (code)
    fabric_close(fabric);
  else
    *result = fabric;
  return code;
}

static bool is_known(void *context, const struct address *peer) {
  const struct fabric *fabric = context;
  for (const struct endpoint *item = fabric->endpoints; item; item = item->next)
    if (address_equal(&item->peer, peer)) return true;
  return false;
}

static void drop_silent(struct fabric *fabric, bool at_once) {
  if (strcmp(fabric->provider, "tcp") != 0) return;
  for (size_t i = 0; i < fabric->listener_count; i++) {
    struct listener *listener = &fabric->listeners[i];
    size_t ended = silent_shut_down(&listener->silent, &listener->bound, at_once, is_known, fabric);
    if (ended && !at_once) log_warning("ended %zu connections of strangers who said nothing", ended);
  }
}

void fabric_drop_silent(struct fabric *fabric) { drop_silent(fabric, false); }

void fabric_close(struct fabric *fabric) {
  if (!fabric) return;
  drop_silent(fabric, true);
  for (struct fabric_event event; fabric->listener_count && fabric_next_event(fabric, &event);)
    if (event.kind == EVENT_REQUEST) request_reject(event.request);
  for (size_t i = 0; i < fabric->listener_count; i++) fi_close(&fabric->listeners[i].handle->fid);
  for (size_t i = 0; i < fabric->device_count; i++) {
    fi_close(&fabric->devices[i].completions->fid);
    fi_close(&fabric->devices[i].domain->fid);
  }
  if (fabric->events) fi_close(&fabric->events->fid);
  if (fabric->handle) fi_close(&fabric->handle->fid);
  free(fabric);
}

const char *fabric_provider(const struct fabric *fabric) { return fabric->provider; }

/* The verbs provider would take some other address instead. */
static int check_address(const struct fabric *fabric, const struct address *address, struct kj_error *error) {
  if (strcmp(fabric->provider, "verbs") != 0 || !address_is_loopback(address)) return 0;
  return kj_fail(error, KJ_NETWORK, "RDMA has no loopback addresses; use --provider tcp on every node");
}

int fabric_listen(struct fabric *fabric, const struct address *address, struct address *bound, struct kj_error *error) {
  char text[ADDRESS_TEXT];
  address_format(address, text);
  if (fabric->listener_count == LISTENERS)
    return kj_fail(error, KJ_INVALID, "%s: at most %d addresses can be listened on", text, LISTENERS);
  int code = check_address(fabric, address, error);
  if (code) return kj_fail_context(error, "%s: cannot listen there", text);
  struct fi_info *info = NULL;
  struct fid_pep *listener = NULL;
  int status = find_info(fabric->provider, address, FI_SOURCE, &info);
  if (!status) status = fi_passive_ep(fabric->handle, info, &listener, NULL);
  if (!status) status = fi_pep_bind(listener, &fabric->events->fid, 0);
  if (!status) status = fi_listen(listener);
  size_t length = sizeof bound->socket;
  if (!status) status = fi_getname(&listener->fid, &bound->socket, &length);
  bound->length = (socklen_t)length;
  if (!status && address_port(address) && address_port(address) != address_port(bound)) status = -FI_EADDRNOTAVAIL;
  fi_freeinfo(info);
  if (status) {
    if (listener) fi_close(&listener->fid);
    return kj_fail(error, KJ_NETWORK, "%s: cannot listen there with provider %s: %s", text, fabric->provider,
                   reason_of(status));
  }
  fabric->listeners[fabric->listener_count++] = (struct listener){.handle = listener, .bound = *bound};
  return 0;
}

/* The device that `info` names, opened when it is used first. */
static int use_device(struct fabric *fabric, struct fi_info *info, struct fabric_device **result,
                      struct kj_error *error) {
  const char *name = info->domain_attr->name ? info->domain_attr->name : "";
  for (size_t i = 0; i < fabric->device_count; i++) {
    *result = &fabric->devices[i];
    if (strcmp(fabric->devices[i].name, name) == 0) return 0;
  }
  if (fabric->device_count == FABRIC_DEVICES || strlen(name) >= sizeof(*result)->name)
    return kj_fail(error, KJ_UNSUPPORTED, "network device %.100s: at most %d devices with names of at most %zu bytes",
                   name, FABRIC_DEVICES, sizeof(*result)->name - 1);
  struct fabric_device *device = &fabric->devices[fabric->device_count];
  *device = (struct fabric_device){.next_key = 1};
  strcpy(device->name, name);
  int status = fi_domain(fabric->handle, info, &device->domain, NULL);
  if (status) return kj_fail(error, KJ_NETWORK, "network device %s: cannot open it: %s", name, reason_of(status));
  struct fi_cq_attr attributes = {.size = COMPLETIONS, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
  status = fi_cq_open(device->domain, &attributes, &device->completions, NULL);
  if (!status) status = fi_control(&device->completions->fid, FI_GETWAIT, &device->wait);
  if (status) {
    if (device->completions) fi_close(&device->completions->fid);
    fi_close(&device->domain->fid);
    return kj_fail(error, KJ_NETWORK, "network device %s: cannot open a completion queue: %s", name, reason_of(status));
  }
  fabric->device_count++;
  *result = device;
  return 0;
}

static int open_endpoint(struct endpoint **result, struct fabric *fabric, struct fi_info *info, void *owner,
                         struct kj_error *error) {
  *result = NULL;
  struct fabric_device *device = NULL;
  int code = use_device(fabric, info, &device, error);
  if (code) return code;
  struct endpoint *endpoint = calloc(1, sizeof *endpoint);
  if (!endpoint) return kj_fail_memory(error, "an endpoint");
  *endpoint = (struct endpoint){.fabric = fabric, .device = device, .owner = owner};
  int status = fi_endpoint(device->domain, info, &endpoint->handle, endpoint);
  if (!status) status = fi_ep_bind(endpoint->handle, &fabric->events->fid, 0);
  if (!status) status = fi_ep_bind(endpoint->handle, &device->completions->fid, FI_SEND | FI_RECV);
  if (!status) status = fi_enable(endpoint->handle);
  if (status) {
    if (endpoint->handle) fi_close(&endpoint->handle->fid);
    free(endpoint);
    return kj_fail(error, KJ_NETWORK, "network device %s: cannot open an endpoint: %s", device->name,
                   reason_of(status));
  }
  endpoint->next = fabric->endpoints;
  fabric->endpoints = endpoint;
  *result = endpoint;
  return 0;
}

int endpoint_connect(struct endpoint **result, struct fabric *fabric, const struct address *address, void *owner,
                     struct kj_error *error) {
  *result = NULL;
  int code = check_address(fabric, address, error);
  if (code) return code;
  struct fi_info *info = NULL;
  int status = find_info(fabric->provider, address, 0, &info);
  if (status)
    return kj_fail(error, KJ_NETWORK, "provider %s does not reach this address (%s)", fabric->provider,
                   reason_of(status));
  struct endpoint *endpoint = NULL;
  code = open_endpoint(&endpoint, fabric, info, owner, error);
  if (!code) {
    status = fi_connect(endpoint->handle, info->dest_addr, NULL, 0);
    if (status) {
      code = kj_fail(error, KJ_NETWORK, "%s", reason_of(status));
      endpoint_close(endpoint);
    } else {
      *result = endpoint;
    }
  }
  fi_freeinfo(info);
  return code;
}

static struct address request_peer(const struct fi_info *info) {
  struct address peer = {0};
  if (!info->dest_addr || info->dest_addrlen > sizeof peer.socket) return peer;
  memcpy(&peer.socket, info->dest_addr, info->dest_addrlen);
  peer.length = (socklen_t)info->dest_addrlen;
  return peer;
}

int request_accept(struct endpoint **endpoint, struct fabric *fabric, struct fabric_request *request, void *owner,
                   struct kj_error *error) {
  int code = open_endpoint(endpoint, fabric, request->info, owner, error);
  if (code) {
    request_reject(request);
    return code;
  }
  (*endpoint)->listener = request->listener;
  (*endpoint)->request = request->info->handle;
  (*endpoint)->peer = request_peer(request->info);
  fi_freeinfo(request->info);
  free(request);
  return 0;
}

int endpoint_accept(struct endpoint *endpoint, struct kj_error *error) {
  int status = fi_accept(endpoint->handle, NULL, 0);
  if (status) return kj_fail(error, KJ_NETWORK, "cannot accept the connection: %s", reason_of(status));
  endpoint->listener = NULL;
  return 0;
}

void request_reject(struct fabric_request *request) {
  fi_reject(request->listener, request->info->handle, NULL, 0);
  fi_freeinfo(request->info);
  free(request);
}

/* Makes the segment known to the endpoint's device. */
static int register_segment(struct endpoint *endpoint, struct segment *segment, struct kj_error *error) {
  struct fabric_device *device = endpoint->device;
  if (segment->registration && segment->device == device) return 0;
  if (segment->registration) fi_close(&segment->registration->fid);
  segment->registration = NULL;
  int status = fi_mr_reg(device->domain, segment->bytes, FRAME_SEGMENT, FI_SEND | FI_RECV, 0, device->next_key++, 0,
                         &segment->registration, NULL);
  if (status)
    return kj_fail(
        error, KJ_MEMORY,
        "cannot register memory with the network device %s: %s; raise the limit on locked memory (ulimit -l)",
        device->name, reason_of(status));
  segment->device = device;
  return 0;
}

int endpoint_receive(struct endpoint *endpoint, struct transfer *transfer, struct kj_error *error) {
  int code = register_segment(endpoint, transfer->segment, error);
  if (code) return code;
  transfer->endpoint = endpoint;
  transfer->sending = false;
  ssize_t status = fi_recv(endpoint->handle, transfer->segment->bytes + transfer->offset, transfer->length,
                           fi_mr_desc(transfer->segment->registration), FI_ADDR_UNSPEC, transfer);
  if (status) return kj_fail(error, KJ_NETWORK, "cannot post a receive: %s", reason_of(status));
  return 0;
}

int endpoint_send(struct endpoint *endpoint, struct transfer *transfer, bool *busy, struct kj_error *error) {
  *busy = false;
  int code = register_segment(endpoint, transfer->segment, error);
  if (code) return code;
  transfer->endpoint = endpoint;
  transfer->sending = true;
  ssize_t status = fi_send(endpoint->handle, transfer->segment->bytes + transfer->offset, transfer->length,
                           fi_mr_desc(transfer->segment->registration), FI_ADDR_UNSPEC, transfer);
  *busy = status == -FI_EAGAIN;
  if (status && !*busy) return kj_fail(error, KJ_NETWORK, "cannot send: %s", reason_of(status));
  return 0;
}

/* Reads one completion of a device; NULL if there is none. */
static struct transfer *read_completion(struct fabric_device *device) {
  struct fi_cq_msg_entry entry;
  ssize_t count = fi_cq_read(device->completions, &entry, 1);
  if (count == 1) {
    struct transfer *transfer = entry.op_context;
    transfer->received = transfer->sending ? 0 : entry.len;
    transfer->reason = 0;
    return transfer;
  }
  if (count != -FI_EAVAIL) return NULL;
  struct fi_cq_err_entry failure = {0};
  if (fi_cq_readerr(device->completions, &failure, 0) != 1 || !failure.op_context) return NULL;
  struct transfer *transfer = failure.op_context;
  transfer->received = 0;
  transfer->reason = errno_of(failure.err);
  return transfer;
}

struct transfer *fabric_next_completion(struct fabric *fabric) {
  struct transfer *transfer = fabric->ended;
  if (transfer) {
    fabric->ended = transfer->next;
    if (!fabric->ended) fabric->ended_tail = &fabric->ended;
    return transfer;
  }
  for (size_t i = 0; i < fabric->device_count && !transfer; i++)
    transfer = read_completion(&fabric->devices[fabric->turn++ % fabric->device_count]);
  return transfer;
}

/* Reads everything that the device has to say into the queue, so that what belongs to an endpoint that is gone can be
 * dropped, or told apart from what comes later. */
static void read_ahead(struct fabric *fabric, struct fabric_device *device) {
  for (struct transfer *transfer; (transfer = read_completion(device));) {
    transfer->next = NULL;
    *fabric->ended_tail = transfer;
    fabric->ended_tail = &transfer->next;
  }
}

void endpoint_close(struct endpoint *endpoint) {
  if (!endpoint) return;
  struct fabric *fabric = endpoint->fabric;
  /* A request that was not accepted still has a handle, which only a rejection releases. */
  if (endpoint->listener) fi_reject(endpoint->listener, endpoint->request, NULL, 0);
  fi_shutdown(endpoint->handle, 0);
  fi_close(&endpoint->handle->fid);
  read_ahead(fabric, endpoint->device);
  struct transfer **link = &fabric->ended;
  while (*link) {
    if ((*link)->endpoint == endpoint)
      *link = (*link)->next;
    else
      link = &(*link)->next;
  }
  fabric->ended_tail = link;
  for (struct endpoint **item = &fabric->endpoints; *item; item = &(*item)->next) {
    if (*item != endpoint) continue;
    *item = endpoint->next;
    break;
  }
  free(endpoint);
}

static struct endpoint *find_endpoint(const struct fabric *fabric, const struct fid *handle) {
  struct endpoint *endpoint = fabric->endpoints;
  while (endpoint && &endpoint->handle->fid != handle) endpoint = endpoint->next;
  return endpoint;
}

static bool lost(struct fabric *fabric, const struct fid *handle, int reason, struct fabric_event *event) {
  const struct endpoint *endpoint = find_endpoint(fabric, handle);
  if (!endpoint) return false;
  read_ahead(fabric, endpoint->device);
  *event = (struct fabric_event){.kind = EVENT_LOST, .owner = endpoint->owner, .reason = reason};
  return true;
}

static bool requested(struct fi_info *info, struct fid *listener, struct fabric_event *event) {
  struct fid_pep *handle = (struct fid_pep *)listener; /* its first member */
  struct fabric_request *request = calloc(1, sizeof *request);
  if (!request) {
    fi_reject(handle, info->handle, NULL, 0);
    fi_freeinfo(info);
    return false;
  }
  *request = (struct fabric_request){.info = info, .listener = handle};
  *event = (struct fabric_event){.kind = EVENT_REQUEST, .request = request, .peer = request_peer(info)};
  return true;
}

bool fabric_next_event(struct fabric *fabric, struct fabric_event *event) {
  /* Room for the data that a stranger may send with a request: it is not looked at. */
  union {
    struct fi_eq_cm_entry entry;
    uint8_t room[sizeof(struct fi_eq_cm_entry) + CONNECTION_DATA];
  } buffer;
  for (;;) {
    uint32_t kind = 0;
    ssize_t length = fi_eq_read(fabric->events, &kind, &buffer, sizeof buffer, 0);
    if (length == -FI_EAVAIL) {
      struct fi_eq_err_entry failure = {0};
      if (fi_eq_readerr(fabric->events, &failure, 0) < 0) return false;
      if (lost(fabric, failure.fid, errno_of(failure.err), event)) return true;
      continue;
    }
    if (length < (ssize_t)sizeof buffer.entry) return false;
    if (kind == FI_CONNREQ) {
      if (requested(buffer.entry.info, buffer.entry.fid, event)) return true;
    } else if (kind == FI_SHUTDOWN) {
      if (lost(fabric, buffer.entry.fid, 0, event)) return true;
    } else if (kind == FI_CONNECTED) {
      const struct endpoint *endpoint = find_endpoint(fabric, buffer.entry.fid);
      if (!endpoint) continue;
      *event = (struct fabric_event){.kind = EVENT_CONNECTED, .owner = endpoint->owner};
      return true;
    }
  }
}

size_t fabric_sleep(struct fabric *fabric, struct pollfd descriptors[FABRIC_POLL]) {
  if (fabric->ended) return 0;
  struct fid *queues[FABRIC_POLL];
  size_t count = 0;
  queues[count] = &fabric->events->fid;
  descriptors[count++] = (struct pollfd){.fd = fabric->wait, .events = POLLIN};
  for (size_t i = 0; i < fabric->device_count; i++) {
    queues[count] = &fabric->devices[i].completions->fid;
    descriptors[count++] = (struct pollfd){.fd = fabric->devices[i].wait, .events = POLLIN};
  }
  return fi_trywait(fabric->handle, queues, (int)count) == FI_SUCCESS ? count : 0;
}
