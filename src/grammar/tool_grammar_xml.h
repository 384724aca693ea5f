/* Calls in the XML form, part of grammar/tool_grammar.h. */
#ifndef KAIJU_GRAMMAR_TOOL_GRAMMAR_XML_H
#define KAIJU_GRAMMAR_TOOL_GRAMMAR_XML_H

#include "grammar/json_schema_parts.h"

/* True if the name of a tool or parameter can stand in a tag and is read back as it is. */
bool tool_grammar_xml_name(const char *name);
/* <function=NAME> to </function>. */
grammar_expression tool_grammar_xml_call(struct schema_compiler *compiler, const char *name,
                                         const struct flat_schema *parameters);

#endif
