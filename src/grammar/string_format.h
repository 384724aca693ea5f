/* The formats of JSON Schema as patterns (grammar/pattern.h).
 *
 * date-time, date, time (RFC 3339; with an offset or Z, without leap seconds; days that the month has), duration
 * (RFC 3339, appendix A), email (RFC 5321, without quotes), hostname (RFC 1123; at most six labels of 40), ipv4, ipv6
 * (RFC 4291), uuid, uri and uri-reference (RFC 3986; no IP literals in brackets), json-pointer. byte is base64 (RFC
 * 4648). password, binary, path, file-path and directory-path say nothing about the text.
 */
#ifndef KAIJU_GRAMMAR_STRING_FORMAT_H
#define KAIJU_GRAMMAR_STRING_FORMAT_H

/* The pattern, "" for any text, or NULL: not known. */
const char *string_format_pattern(const char *name);

#endif
