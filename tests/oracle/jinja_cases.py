"""Small templates for test_jinja.py: written by hand by behaviour, and generated from a seed."""

import random

VARIABLES = {
    "n": 7,
    "zero": 0,
    "big": 9007199254740993,
    "f": 2.5,
    "tiny": 1.5e-07,
    "t": True,
    "no": False,
    "none_value": None,
    "s": "Hello, World",
    "empty": "",
    "u": "Grüße 東京 😀 ñ",
    "spaced": "  a b\t\n",
    "html": "<a href='x'>&\"</a>",
    "lines": "one\ntwo\n\nthree",
    "xs": [3, 1, 2],
    "ys": ["b", "A", "c", "a"],
    "mixed": [1, "1", 1.0, True, None, [1], {"a": 1}],
    "nothing": [],
    "d": {"b": 1, "a": {"x": [1, 2, {"y": "z"}]}, "items": 5, "ü": "ö"},
    "people": [
        {"name": "Zoë", "age": 30, "tags": ["x", "y"], "boss": None},
        {"name": "adam", "age": 25, "tags": [], "boss": {"name": "Zoë"}},
        {"name": "Bob", "age": 30},
    ],
    "messages": [
        {"role": "system", "content": "Be nice."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
    ],
}

EXPRESSIONS = """
1 + 2 * 3 - 4
7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3, -7.5 // 2, -7.5 % 2, 7.5 % -2
2 ** 10, 2 ** -1, 2 ** 3 ** 2, -2 ** 2, 0.5 ** 2
7 / 2, 6 / 3, 1 / 3, 10 / 4.0
1 / 0
1 % 0
5 // 0.0
1_000, 0x1F, 0b101, 0o17, 1e3, 1.5e-7, 1E+2, 12_3.4_5
1.0, 1e16, 1e15, 123456789.125, 1e-4, 1e-5, 0.1 + 0.2, 1e22, 1e300 * 1e10
true, True, false, None, none
'a' 'b' "c"
'it\\'s', "q\\"q", '\\n\\t\\\\', '\\x41\\u00e9\\U0001F600', '\\q', '\\101'
n ~ s ~ none_value ~ t ~ f ~ missing ~ xs
'a' + 'b', [1] + [2], (1,) + (2,), 'ab' * 3, [0] * 3, 2 * 'x', 'x' * -1
'a' + 1
[1] + (2,)
none_value + 1
1 < 2 < 3, 1 < 3 < 2, 1 == 1.0 == True, 'a' < 'b', [1, 2] < [1, 3], (1,) < (2,), 1 != 2
1 < 'a'
none_value < 1
'é' > 'z', '😀' > '東'
1 in xs, 9 not in xs, 'ell' in s, 'b' in d, 'zz' in d, 1 in (1, 2), '' in empty, 'a' in missing
1 in s
[1] in d
1 in 5
not 1, not missing, not not 'x', not nothing
1 and 2, 0 and 2, 0 or 'x', '' or none_value, missing or 'd', 1 or missing.x
'yes' if t else 'no', 'yes' if no else 'no', 'yes' if no
('yes' if no) is defined
1 if 0 else 2 if 0 else 3
-n, +n, -f, -t, +t, - - n
-5|abs, (-5)|abs, -5.5|abs
missing
missing.attribute
missing['key']
missing[0]
missing[1:]
missing()
missing + 1
missing == missing2, missing == none_value, missing != 1
missing|length, missing|list, missing|join, missing|upper, missing|first is undefined, missing|map('upper')|list
missing is defined, missing is undefined, missing is iterable, missing is sequence, missing is string, missing is mapping
missing|int
missing|tojson
d.a.x[2].y, d['a']['x'][-1]['y'], d.missing, d.missing is defined, d['missing'] is undefined
d.missing.deeper
d.items, d['items']
d.items is callable, d.items() | list, d.keys(), d.values() | list, d.keys() | list
d.get('b'), d.get('q'), d.get('q', 5), d.get('a', {}).get('x')
d.items() | length, d.keys() is sequence, d.items() is iterable, d.items() is mapping
d.items()[0]
xs[0], xs[-1], xs[5] is defined, xs['0'] is defined, xs.0, xs.2, s[0], u[-3], u[6]
xs[1:], xs[:2], xs[::-1], xs[::2], xs[-2:], xs[5:], xs[:-5], xs[2:0:-1], xs[-1::-1], xs[10:0:-2], xs[none_value:2]
s[1:4], s[::-1], u[::-1], u[2:9], u[-4:-1], s[:-7], s[100:], s[::3], s[-1:0:-2]
(1, 2, 3)[1:], range(10)[2:8:2], range(5)[::-1] | list
d[1:]
none_value[1:]
xs['a':]
xs[::0]
n.foo is defined, n[0] is defined, none_value.x is defined, none_value['x'] is defined, t[0] is defined
none_value.x.y
range(5), range(1, 4) | list, range(10, 0, -3) | list, range(0) | list, range(3) | length, range(3)[1]
range(1, 2, 0)
range(200000)
s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), u.upper(), u.lower(), u.title(), 'ß ŉ ﬁ ǆ'.upper(), 'ΑΣ ΑΣΑ Σ'.lower(), 'A´Σ A^Σ. AΣ:A ᴬΣ AΣ·A'.lower(), 'ﬁx ǆ'.title(), 'İ'.lower()
spaced.strip(), spaced.lstrip(), spaced.rstrip(), 'xxaxx'.strip('x'), 'abcba'.strip('ab'), 'xyz'.lstrip('yx'), 'éaé'.strip('é'), '\\u3000a\\xa0'.strip() ~ '|'
s.split(), s.split(', '), 'a,b,,c'.split(','), 'a,b,c'.split(',', 1), ' a  b '.split(), ' a  b c '.split(none, 1), ''.split(), ''.split(','), 'a,b,c'.rsplit(',', 1), ' a b  c '.rsplit(None, 1), 'aXXbXXc'.split('XX')[-1]
s.split('')
s.startswith('He'), s.endswith('ld'), s.startswith(('x', 'H')), s.endswith('x'), s.startswith('lo', 3), s.startswith('', 50)
s.replace('l', 'L'), s.replace('l', 'L', 1), 'aaa'.replace('a', 'b', 2), 'abc'.replace('', '-'), 'é'.replace('é', 'ee')
s.find('o'), s.rfind('o'), s.find('zz'), u.find('京'), s.index('W'), s.count('l'), 'aaaa'.count('aa'), s.find('o', 5), s.find('o', -4, -1)
s.index('zz')
'-'.join(ys), ''.join([]), ', '.join('abc')
'-'.join([1])
'{} and {}'.format(1, 'x'), '{0}{1}{0}'.format('a', 'b'), '{name}'.format(name='n'), '{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c'), '{:.2f} {:5d} {:05.1f} {:x} {:,}'.format(3.14159, 42, 2.5, 255, 1234567), '{{}} {!r}'.format('q'), '{0.x} {0[0]}'.format([1])
'{}'.format()
'%s is %d years, %.2f %5s|%-5s|%05d %x %%' % ('a', 3, 1.5, 'r', 'l', 42, 255)
'%s' % 'x', '%s' % xs, '%(a)s' % {'a': 1}
'%d' % 'x'
'%s %s' % 'x'
'a-b'.partition('-'), 'ab'.partition('-'), 'a-b-c'.rpartition('-'), 'prefix-x'.removeprefix('prefix-'), 'x.py'.removesuffix('.py')
'12'.isdigit(), 'ab'.isalpha(), 'a1'.isalnum(), ' '.isspace(), 'AB'.isupper(), 'ab'.islower(), ''.isdigit(), '²'.isdigit(), 'é'.isalpha(), '½'.isalnum()
'5'.zfill(3), '-5'.zfill(4), 'a'.ljust(3) ~ '|', 'a'.rjust(3, '.'), 'ab'.center(5) ~ '|', 'a'.center(4) ~ '|'
lines.splitlines(), 'a\\r\\nb\\x0bc'.splitlines()
xs.index(2), xs.count(1), (1, 1).count(1)
xs.append(4)
d.update({})
d.pop('b')
xs.append is defined, s.nothing is defined, d.update is undefined
xs.__class__
s.__class__.__mro__
s|length, u|length, xs|count, d|length, nothing|length
5|length
none_value|length
ys|sort, ys|sort(reverse=true), ys|sort(case_sensitive=true), xs|sort, people|sort(attribute='age')|map(attribute='name')|list, people|sort(attribute='age,name')|map(attribute='name')|list, 'hello'|sort
mixed|sort
ys|unique|list, ys|unique(true)|list, [1, 1.0, True, 2]|unique|list
xs|min, xs|max, xs|sum, nothing|max is undefined, people|sum(attribute='age'), people|max(attribute='age'), [1.5, 2]|sum
xs|first, xs|last, nothing|first is defined, 'abc'|first, d|first, d|last, u|last
xs|reverse|list, 'abc'|reverse, u|reverse, d|reverse|list, (1, 2)|reverse|list
xs|join, xs|join(', '), people|join('; ', attribute='name'), 'abc'|join('-'), d|join(','), [none_value, 1.0, true]|join(' ')
people|map(attribute='name')|list, people|map(attribute='boss.name')|map('default', 'nobody')|list, ys|map('upper')|join, people|map(attribute='tags.0', default='-')|list, ['a b', 'c']|map('replace', 'a', 'x')|list
people|selectattr('boss')|list|length, people|selectattr('age', 'equalto', 30)|map(attribute='name')|list, people|rejectattr('tags')|map(attribute='name')|list, people|selectattr('tags', 'defined')|list|length, people|selectattr('name', 'in', ['Bob'])|list
xs|select('odd')|list, xs|reject('odd')|list, mixed|select|list, mixed|select('string')|list, xs|select('gt', 1)|list, xs|select('>=', 2)|list
xs|map('upper')
xs|map('nothere')|list
xs|select('nothere')|list
d|dictsort, d|dictsort(reverse=true), {'b': 2, 'A': 1, 'c': 0}|dictsort, {'b': 2, 'A': 1}|dictsort(true), {'b': 2, 'a': 3}|dictsort(by='value')
d|items|list, missing|items|list
xs|items
missing|default('x'), none_value|default('x'), none_value|default('x', true), ''|d('e', boolean=true), missing|d, 0|default(5, true)
'42'|int, '4.7'|int, 'x'|int, 'x'|int(5), 3.9|int, '0x1F'|int(base=16), true|int, none_value|int, xs|int, ' 42 '|int, '1_000'|int, '-7'|int, '1e3'|int
'4.5'|float, 'x'|float, 'x'|float(1.5), 3|float, 'inf'|float, '1e400'|float, ' -2.5 '|float
2.5|round, 3.5|round, 2.675|round(2), 42.55|round(1, 'floor'), 42.55|round(1, 'ceil'), 5|round, 1.25|round(1), -1.5|round
xs|string ~ 1, none_value|string, f|string
s|upper, s|lower, s|title, s|capitalize, n|upper, 'foo-bar (baz) <x> [y] o\\'neil'|title, 'éCOLE'|title, 'HELLO world'|capitalize
spaced|trim, 'xxaxx'|trim('x'), n|trim
s|replace('l', 'L'), s|replace('l', 'L', 1), n|replace(7, 8), 'aa'|replace('', '-')
lines|indent, lines|indent(2), lines|indent(2, true), lines|indent(2, false, true), lines|indent('>> '), ''|indent, 'a\\n'|indent
'a long sentence with words'|truncate(10), 'a long sentence'|truncate(9, true), 'short'|truncate(3), 'a long sentence'|truncate(9, false, '…', 0)
'ab'|center(6) ~ '|', '%s-%s'|format(1, 2), '%(a)s'|format(a=5)
html|escape, html|e, html|safe, html|e|e, html|forceescape, (html|e)|forceescape, html|safe|e
(html|safe) + '<b>', '<b>' + (html|safe), (html|safe) ~ '<b>', (html|safe) * 2, ('<'|safe)[0] + '<', ('<a>'|safe).replace('a', '<'), ('a'|safe|upper) + '<', ('<'|safe).join(['<', 'a']), [('<'|safe)]
d|tojson, u|tojson, xs|tojson(indent=2), d|tojson(indent=4), nothing|tojson(indent=2), {}|tojson(indent=1), 'a"\\\\\\n\\x01\\x7f/'|tojson, 1.0|tojson, none_value|tojson, true|tojson, {1: 2, none: 3, true: 4, 1.5: 5}|tojson, (1, 2)|tojson
u|tojson(ensure_ascii=true), d|tojson(sort_keys=true), d|tojson(separators=(',', ':')), d|tojson(true), xs|tojson(indent='--'), xs|tojson(indent=0), 'é\\x7f'|tojson(true), '<&>'|tojson
1e400|tojson, (-1e400)|tojson
d.items()|tojson
xs|map('string')|tojson
{(1, 2): 3}|tojson
xs, ys, d, mixed, (1,), (), [], {}, {'a': (1, 'b')}, [1.0, none, true, 'it\\'s', 'q"', '\\n\\t\\x00\\u200b é 😀'], {1: 'x'}, u
[missing], {'a': missing}
n is number, f is number, t is number, s is number, n is integer, t is integer, f is float, t is boolean, n is boolean
s is string, xs is string, xs is sequence, d is sequence, s is sequence, n is sequence, xs is iterable, n is iterable, d is mapping, xs is mapping
none_value is none, n is not none, t is true, no is false, n is true, 1 is true, s is defined, n is not defined
3 is odd, 4 is even, 9 is divisibleby 3, 9 is divisibleby(4), 'x' is sameas 'x' or true, none_value is sameas none, true is sameas 1
n is eq 7, n is equalto(7), n == 7 is true, n is ne 3, n is gt 3, n is ge 7, n is lt 3, n is le 7, n is greaterthan 3, n is lessthan 3, 2 is in xs, 'a' is in 'abc', n is in [1, 2] or true
'abc' is lower, 'ABC' is upper, 'Abc' is lower, ('a'|safe) is escaped, 'a' is escaped, 'upper' is filter, 'nope' is filter, 'odd' is test, range is callable, n is callable
n is odd and s is string, not n is even, n is not even, 1 is in [1] if 1 else 0
n is nothere
s|nothere
nothere(1)
range
dict(a=1, b=2), dict({'a': 1}, b=2), dict([('x', 1), ['y', 2]]), {**d}
dict(1)
namespace(a=1, b='x').a, namespace({'q': 2}).q, namespace(a=1)['a'], namespace().x is defined
{'a': 1, 'a': 2}, {1: 'int', 1.0: 'float', true: 'bool'}, {'a' ~ 'b': 1}
{[1]: 2}
{'a': 1}.a, [1, 2][0], 'abc'.upper(), (1, 2)[1], {'a': [1]}.a[0], {'k': {'x': 1}}['k'].x
1.5.foo is defined, 1 .foo is defined
[1, 2,], (1, 2,), {'a': 1,}, range(1, 3,)|list
xs | length > 2 and ys | length, xs | first + 1, -xs|first, 'a' ~ xs|length, 1 + 2 ~ 3, 1 ~ 2 + 3, 2 * 3 ~ 4
xs[n - 6], xs[-1 - 1], d['a' if t else 'b'], xs[:n - 5]
raise_exception('stop: ' ~ n)
big, big + 1, big * 2, -big
9223372036854775807, -9223372036854775807
messages[0].role, messages[0]['role'], messages[-1].content is none, messages[::-1][0].role, messages[2].tool_calls[0].function.arguments|tojson
messages[0].get('content') is string, messages|length - 1, (messages|last).role, messages[1:]|map(attribute='role')|join(',')
*xs
range(*[1, 4])|list, '{a}{b}'.format(**{'a': 1, 'b': 2}), dict(**{'x': 1})
1 +
(1
a b
'unterminated
1 2
x.
x..y
[1 2]
{1}
f(a=1, 2)
n is
n|
loop
""".strip().split("\n")

STATEMENTS = [
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}",
    "{% if no %}a{% elif missing %}b{% endif %}|",
    "{% for x in xs %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{{ loop.previtem.foo if loop.previtem else '-' }}{% endfor %}",
    "{% for x in xs %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}",
    "{% for x in nothing %}x{% else %}none{% endfor %}{% for x in missing %}x{% else %}none{% endfor %}",
    "{% for x in none_value %}x{% endfor %}",
    "{% for x in 5 %}x{% endfor %}",
    "{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}",
    "{% for x in xs if x > 10 %}{{ x }}{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}{% for c in u %}{{ c }}.{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3)), (4, [5, 6])] %}{{ a }}{{ b }}{{ c }};{% endfor %}",
    "{% for a, b in [1, 2] %}{{ a }}{% endfor %}",
    "{% for a, b in ['xy', 'zw'] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, b in ['xyz'] %}{{ a }}{% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}!",
    "{% for x in xs %}{% for y in ys %}{% if y == 'A' %}{% break %}{% endif %}{{ x }}{{ y }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% break %}",
    "{% for x in xs %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}{% for x in (1, 2) %}{{ x }}{% endfor %}",
    "{% for x in xs|sort %}{{ x }}{% endfor %}{% for x in range(3) %}{{ x }}{% endfor %}{% for x in xs[::-1] %}{{ x }}{% endfor %}",
    "{% set a = 1 %}{{ a }}{% set a = a + 1 %}{{ a }}{% set b, c = 1, 'x' %}{{ b }}{{ c }}{% set t2 = 1, 2 %}{{ t2 }}",
    "{% set a %}block {{ n }}{% endset %}[{{ a }}]{% set b | upper | replace('B', 'x') %}abc{% endset %}{{ b }}{{ a is string }}",
    "{% set a = 0 %}{% for x in xs %}{% set a = a + x %}{{ a }}{% endfor %}|{{ a }}",
    "{% set ns = namespace(a=0, found=false) %}{% for x in xs %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}{{ ns.found }}{{ ns.x is defined }}{% set ns.x = 'y' %}{{ ns.x }}",
    "{% set ns = namespace() %}{% set ns.t %}text {{ n }}{% endset %}{{ ns.t }}{{ ns }}",
    "{% set d.a = 1 %}",
    "{% set q.a = 1 %}",
    "{% set true = 1 %}",
    "{% if t %}{% set inner = 5 %}{% endif %}{{ inner }}{% if no %}{% set other = 1 %}{% endif %}{{ other is defined }}",
    "{% if no %}{% set n = 1 %}{% endif %}{{ n }}{% set n = n + 1 %}{{ n }}",
    "{% for x in xs %}{{ seen }}{% set seen = x %}{{ seen }};{% endfor %}{{ seen is defined }}",
    "{% for x in xs %}{% if loop.first %}{% set kept = x %}{% endif %}{{ kept is defined }}{% endfor %}",
    "{% macro m(a, b=2, c='x') %}({{ a }}{{ b }}{{ c }}){% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(a=5, c=6) }}{{ m(1, c=n) }}{{ m() }}{{ m.name }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}",
    "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{% if a > 0 %}{{ m(a - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{% macro even(k) %}{{ 'even' if k == 0 else odd(k - 1) }}{% endmacro %}{% macro odd(k) %}{{ 'odd' if k == 0 else even(k - 1) }}{% endmacro %}{{ even(9) }}",
    "{% macro m() %}{{ later }}{% endmacro %}{{ m() }}{% set later = 3 %}{{ m() }}",
    "{% macro m() %}{{ x }}{% endmacro %}{% for x in xs %}{{ m() }}{% endfor %}|",
    "{% for x in xs %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m() %}{% set q = 5 %}{{ q }}{% endmacro %}{{ m() }}{{ q is defined }}{{ m() | length }}{{ m() ~ 'x' }}{{ m() is string }}",
    "{% macro box(title) %}[{{ title }}:{{ caller() }}]{% endmacro %}{% call box('T') %}body {{ n }}{% endcall %}",
    "{% macro each(items) %}{% for i in items %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(x) each(xs) %}<{{ x }}>{% endcall %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% call n %}{% endcall %}",
    "{% macro m(a, a2=1, b) %}{% endmacro %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% set n = 2 %}{% endwith %}{{ n }}{{ a is defined }}",
    "{% with %}{% set n = 1 %}{{ n }}{% endwith %}{{ n }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b')|upper %}aa{% endfilter %}",
    "{% block b %}{{ n }}{% set z = 1 %}{% endblock %}{{ z is defined }}{% block c scoped %}x{% endblock c %}",
    "{% generation %}{{ s }}{% endgeneration %}|{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %}{% endfor %}",
    "{% print n, s %}",
    "{% raw %}{{ x }} {% if %} {# #}{% endraw %}|{%- raw -%}  {{ y }}  {%- endraw -%}  |",
    "{% raw %}\n  a\n  {% endraw %}\nb",
    "a{# comment #}b{#- c -#} d\n{# x #}\ne{# multi\nline #}f",
    "{# {{ n }} {% if %} #}x",
    "{# unterminated",
    "{% if n %}",
    "{% endif %}",
    "{% for %}{% endfor %}",
    "{% if n %}{% endfor %}",
    "{% unknown %}",
    "{{ n }",
    "{{ }}",
    "{% %}",
    "{{ {'a': {'b': 1}} }}{{ {'a': {}}}}",
    "{% set x = {'a': [1, {'b': 2}]} %}{{ x.a[1].b }}",
    "a\n{% if t %}\nb\n{% endif %}\nc\n",
    "a\n  {% if t %}  \n  b  \n  {% endif %}  \nc\n\n",
    "a\n  {%- if t %}\n  b\n  {%- endif %}\nc",
    "a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc",
    "a\n  {%+ if t %}\n  b\n  {%+ endif %}\nc",
    "a\n  {% if t +%}\n  b\n  {% endif +%}\nc",
    "a  {{- n -}}  b  {{ n }}  \n{{ n }}\n  {{ n }}\nc",
    "  {{ n }}\n\t{% set q = 1 %}\n\t{{ q }}",
    "x {% if t %} y {% endif %} z\n",
    "\n\n{% if t %}\n\n{% endif %}\n\n",
    "a\r\nb\rc\n{% if t %}\r\nd{% endif %}\r\n",
    "   {# c #}   \n  x  {# c #}\n{# c -#}  \n  y",
    "\u00a0{%- if t %}x{% endif -%}\u3000y",
    "{{ '\n' }}|{{ 'a\r\nb' }}|",
    "é{{ u }}東",
    "{% for m in messages %}{{ m.role }}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{% endif %}{% endfor %}",
    "{% for m in messages[::-1] %}{% set i = (messages|length - 1) - loop.index0 %}{{ i }}{{ m.role }}{% endfor %}",
    "{% set j = joiner('; ') %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}",
    "{% set g = xs|map('string') %}{{ g|list }}{{ g|list }}{% set h = xs|select('odd') %}{{ h|first }}{{ h|list }}",
    "{% for x in xs|map('string') %}{{ x }}{{ loop.last }}{{ loop.length }}{% endfor %}",
    "{% set x = namespace(v=[]) %}{% for p in people %}{% set x.v = x.v + [p.name] %}{% endfor %}{{ x.v }}",
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set sys = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% endif %}{{ loop_messages|length }}{{ sys }}",
    "{% include 'x' %}",
    "{% extends 'x' %}",
    "{% import 'x' as y %}",
    "{% from 'x' import y %}",
    "{% trans %}x{% endtrans %}",
    "{% do xs %}",
    "{% if n is defined and n is number and n > 3 %}{{ n }}{% endif %}{% if not (n == 3 or n in [4]) %}z{% endif %}",
    "{% if n: %}x{% endif %}{% for x in xs: %}{{ x }}{% endfor %}",
    "{%if n%}x{%endif%}{%-for x in xs-%}{{x}}{%-endfor-%}",
    "{{ n }}\n",
    "{{ n }}\n\n",
    "{{ caller() }}",
    "{{ strftime_now('%Y') | length }}{{ strftime_now('%%') }}",
    "{{ raise_exception('no') if no else 'fine' }}",
    "{{ '{{' }} {{ '%}' }} {{ \"}}\" }}",
    "{{ 'a' if n > 3 else 'b' ~ 'c' }}{{ ('a' if no else 'b') ~ 'c' }}",
    "{% set f2 %}{% for x in xs %}{{ x }}{% endfor %}{% endset %}{{ f2 }}{{ f2|length }}",
    "{% set x %}{{ html }}{% endset %}{{ x + '<' }}{{ (x|e) + '<' }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(html) + '<' }}{{ m(html|e) + '<' }}{{ [1]|map('string')|map('upper')|join }}",
]

ATOMS = (
    ["n", "zero", "f", "t", "no", "none_value", "s", "empty", "u", "spaced", "lines", "html", "xs", "ys", "mixed"]
    + ["nothing", "d", "people", "messages", "missing", "d.a", "d.a.x", "people[0]", "people[1].name", "people[0].tags"]
    + ["0", "1", "2", "-1", "3.5", "'a'", "'b c'", "''", "'é😀'", "[1, 2]", "['x', 'é']", "{'k': 'v'}", "(1, 'x')"]
    + ["true", "none", "range(4)", "[[2, 1], [0]]", "'Ab-cD'", "(d.items()|list)", "(d.keys()|list)", "[{'a': 1}, {'a': 2}]"]
)
FILTERS = (
    ["abs", "capitalize", "count", "d", "default('z')", "default('z', true)", "dictsort", "e", "first", "float"]
    + ["indent(2)", "int", "int(3)", "items|list", "join", "join('-')", "last", "length", "list", "lower"]
    + ["map('string')|list", "map(attribute='name')|list", "map('length')|list", "max", "min", "replace('a', 'Z')"]
    + ["reverse|list", "round", "round(1)", "safe", "select|list", "select('defined')|list", "reject('none')|list"]
    + ["selectattr('a')|list", "sort", "sort(reverse=true)", "string", "sum", "title", "tojson", "tojson(indent=1)"]
    + ["trim", "trim('a ')", "unique|list", "upper", "rejectattr('boss', 'none')|list", "map('upper')|join(',')"]
    + ["center(9)", "truncate(4)", "forceescape", "map('first')|list", "sort(attribute='age')"]
)
TESTS = (
    ["defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping"]
    + ["sequence", "iterable", "callable", "lower", "upper", "odd", "even", "divisibleby 2", "eq 1", "ne 'a'", "gt 1"]
    + ["in xs", "in 'abc'", "sameas none", "escaped", "equalto('a')", "not none", "not string", "not defined", "le 2"]
)
METHODS = (
    ["strip()", "lstrip()", "rstrip('d ')", "split()", "split(' ')", "split('l', 1)", "startswith('H')", "endswith('a')"]
    + ["replace('l', '')", "upper()", "lower()", "title()", "items()", "keys()|list", "values()|list", "get('b')"]
    + ["get('q', 'dflt')", "splitlines()", "capitalize()", "count('a')", "find('o')", "format(1)", "append(1)", "copy()"]
    + ["index(1)", "isdigit()", "rsplit(' ', 1)", "join(ys)", "swapcase()", "zfill(5)", "partition(' ')", "isupper()"]
)
SUBSCRIPTS = (
    ["[0]", "[-1]", "[1:]", "[:2]", "[::-1]", "[::2]", "[1:-1]", "[-2:]", "['a']", "['name']", ".name", ".x", ".0"]
    + ["[n]", "[5:1:-2]", "[:-1]", "['items']", ".content", "[none]", "[1.0]", "[true]", "[xs]"]
)
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def expression(source, depth):
    """A random expression; most make sense to Python, some fail."""
    if depth == 0 or source.random() < 0.15:
        return source.choice(ATOMS)
    kind = source.randrange(100)
    inner = expression(source, depth - 1)
    if kind < 26:
        return f"({inner})|{source.choice(FILTERS)}"
    if kind < 36:
        return f"(({inner}) is {source.choice(TESTS)})"
    if kind < 50:
        return f"({inner}).{source.choice(METHODS)}"
    if kind < 62:
        return f"({inner}){source.choice(SUBSCRIPTS)}"
    if kind < 84:
        return f"({inner} {source.choice(BINARY)} {expression(source, depth - 1)})"
    if kind < 88:
        return f"(not {inner})"
    if kind < 90:
        return f"(-({inner}))"
    if kind < 94:
        return f"({inner} if {expression(source, depth - 1)} else {expression(source, depth - 1)})"
    if kind < 97:
        return f"[{inner}, {expression(source, depth - 1)}]"
    return "{'p': " + inner + ", 'q': " + expression(source, depth - 1) + "}"


SPACES = ["", "", " ", "  ", "\n", "\n  ", "\n\n", " \n", "\t", "\r\n", "\u00a0"]
TEXTS = ["a", "b c", "é", "}", "{", "%", "#", "<|im_start|>", "'", ""]


def block(source, depth):
    """Random text with random statements, signs and white space."""
    parts = []
    for _ in range(source.randrange(1, 4)):
        parts.append(source.choice(SPACES) + source.choice(TEXTS) + source.choice(SPACES))
        parts.append(statement(source, depth))
        parts.append(source.choice(SPACES))
    return "".join(parts)


def tag(source, content):
    return "{%" + source.choice(["", "", "-", "-", "+"]) + " " + content + " " + source.choice(["", "", "-", "-", "+"]) + "%}"


def statement(source, depth):
    kind = source.randrange(11) if depth else source.randrange(4)
    simple = expression(source, 1)
    if kind == 0:
        return "{{" + source.choice(["", "-"]) + " " + simple + " " + source.choice(["", "-"]) + "}}"
    if kind == 1:
        return "{#" + source.choice(["", "-", "+"]) + " c " + source.choice(["", "-", "+"]) + "#}"
    if kind == 2:
        return tag(source, f"set v = {simple}") + "{{ v }}"
    if kind == 3:
        return tag(source, "raw") + source.choice(SPACES) + "{{ x }}" + source.choice(SPACES) + tag(source, "endraw")
    inner = block(source, depth - 1)
    if kind in (4, 5):
        other = tag(source, "else") + block(source, depth - 1) if source.random() < 0.5 else ""
        return tag(source, f"if {simple}") + inner + other + tag(source, "endif")
    if kind in (6, 7):
        items = source.choice(["xs", "ys", "people", "d", "nothing", "'ab'", "range(2)", "xs if x != 1", "ys[::-1]"])
        jump = source.choice(["", "", tag(source, "if loop.index == 2") + tag(source, "continue") + tag(source, "endif")])
        return tag(source, f"for x in {items}") + "{{ x }}" + jump + inner + tag(source, "endfor")
    if kind == 8:
        return tag(source, "macro m(p, q=2)") + "{{ p }}{{ q }}" + inner + tag(source, "endmacro") + "{{ m(1) }}"
    if kind == 9:
        return tag(source, "set w") + inner + tag(source, "endset") + "[{{ w }}]"
    return tag(source, "filter upper") + inner + tag(source, "endfilter")


def generated(seed, expressions, statements):
    source = random.Random(seed)
    cases = ["{{ " + expression(source, source.randrange(1, 4)) + " }}" for _ in range(expressions)]
    return cases + [block(source, 2) for _ in range(statements)]
