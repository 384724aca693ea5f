#include "grammar/string_format.h"

#include <stddef.h>
#include <string.h>

#define YEAR "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                 \
  "(?:" YEAR                                                                                 \
  "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|" \
  "02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

#define NUMBER "[0-9]{1,9}"
#define DURATION_TIME "T(?:" NUMBER "H(?:" NUMBER "M(?:" NUMBER "S)?)?|" NUMBER "M(?:" NUMBER "S)?|" NUMBER "S)"
#define DURATION_DATE \
  "(?:" NUMBER "D|" NUMBER "M(?:" NUMBER "D)?|" NUMBER "Y(?:" NUMBER "M(?:" NUMBER "D)?)?)(?:" DURATION_TIME ")?"

#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,38}[A-Za-z0-9])?"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"

#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE "(?:\\." BYTE "){3}"
#define GROUP "[0-9A-Fa-f]{1,4}"
#define IPV6                                                                                     \
  "(?:(?:" GROUP ":){6}(?:" GROUP ":" GROUP "|" IPV4                                             \
  ")|"                                                                                           \
  "::(?:" GROUP ":){0,5}(?:" GROUP ":" GROUP "|" IPV4 ")|::(?:" GROUP                            \
  ")?|"                                                                                          \
  "" GROUP "::(?:(?:" GROUP ":){0,4}(?:" GROUP ":" GROUP "|" IPV4 ")|(?:" GROUP                  \
  ")?)|"                                                                                         \
  "" GROUP "(?::" GROUP "){1}::(?:(?:" GROUP ":){0,3}(?:" GROUP ":" GROUP "|" IPV4 ")|(?:" GROUP \
  ")?)|"                                                                                         \
  "" GROUP "(?::" GROUP "){2}::(?:(?:" GROUP ":){0,2}(?:" GROUP ":" GROUP "|" IPV4 ")|(?:" GROUP \
  ")?)|"                                                                                         \
  "" GROUP "(?::" GROUP "){3}::(?:(?:" GROUP ":){0,1}(?:" GROUP ":" GROUP "|" IPV4 ")|(?:" GROUP \
  ")?)|"                                                                                         \
  "" GROUP "(?::" GROUP "){4}::(?:(?:" GROUP ":" GROUP "|" IPV4 ")|(?:" GROUP                    \
  ")?)|"                                                                                         \
  "" GROUP "(?::" GROUP "){5}::(?:" GROUP ")?|" GROUP "(?::" GROUP "){6}::)"

#define HEX "[0-9A-Fa-f]"
#define ESCAPED "%" HEX HEX
#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" ESCAPED ")"
#define SEGMENT_WITHOUT_COLON "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" ESCAPED ")+"
#define AUTHORITY \
  "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" ESCAPED ")*@)?(?:[A-Za-z0-9._~!$&'()*+,;=-]|" ESCAPED ")*(?::[0-9]{0,5})?"
#define PATHS "(?:/" PCHAR "*)*"
#define ABSOLUTE "/(?:" PCHAR "+" PATHS ")?"
#define QUERY "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define URI "[A-Za-z][A-Za-z0-9+.-]*:(?://" AUTHORITY PATHS "|" ABSOLUTE "|" PCHAR "+" PATHS ")?" QUERY
#define RELATIVE "(?://" AUTHORITY PATHS "|" ABSOLUTE "|" SEGMENT_WITHOUT_COLON PATHS ")?" QUERY

#define BASE64 "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

const char *string_format_pattern(const char *name) {
  static const struct {
    const char *name, *pattern;
  } FORMATS[] = {
      {"date-time", "^" DATE "T" TIME "$"},
      {"date", "^" DATE "$"},
      {"time", "^" TIME "$"},
      {"duration", "^P(?:" DURATION_DATE "|" DURATION_TIME "|" NUMBER "W)$"},
      {"email", "^" ATOM "{1,20}(?:\\." ATOM "{1,20}){0,2}@" LABEL "(?:\\." LABEL "){1,4}$"},
      {"hostname", "^" LABEL "(?:\\." LABEL "){0,5}$"},
      {"ipv4", "^" IPV4 "$"},
      {"ipv6", "^" IPV6 "$"},
      {"uuid", "^" HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}$"},
      {"uri", "^" URI "$"},
      {"uri-reference", "^(?:" URI "|" RELATIVE ")$"},
      {"json-pointer", "^(?:/(?:[^/~]|~[01])*)*$"},
      {"byte", BASE64},
      {"base64", BASE64},
      {"password", ""},
      {"binary", ""},
      {"path", ""},
      {"file-path", ""},
      {"directory-path", ""},
  };
  for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++)
    if (strcmp(FORMATS[i].name, name) == 0) return FORMATS[i].pattern;
  return NULL;
}
