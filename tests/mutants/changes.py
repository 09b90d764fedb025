"""Small faults, as people make them, planted in C: where they fit on the syntax tree, and what the text becomes.

The tree is tree-sitter's, of the text as it was written. A compiler's tree (libclang) knows types, but places whatever
stands within a macro's arguments at the macro, and here ICL_TRY and ICL_CHECK stand around every second call. What a
fault must know of types it reads from declarations (Declarations), and what does not compile is drawn again.
"""

import collections
import pathlib
import re

import tree_sitter
import tree_sitter_c

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_c.language()))

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ONE_OFF = {"<": "- 1", "<=": "+ 1", ">": "+ 1", ">=": "- 1"}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "&": "|", "|": "&", "<<": ">>", ">>": "<<"}
ASSIGNMENTS = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&=", "&=": "|="}
STEPS = {"++": "--", "--": "++"}
# Words of verdicts, in texts that functions print; not in the tables of --help.
WORDS = [("better", "worse"), ("above", "below"), ("more", "less"), ("largest", "smallest"), ("first", "last"),
         ("before", "after"), ("faster", "slower"), ("longest", "shortest"), ("at least", "at most"), ("min", "h")]
SIMPLE = {"identifier", "number_literal", "field_expression", "call_expression"}
CHECKING = {"ICL_TRY", "ICL_CHECK"}  # macros that return or leave where a status is not ICL_OK
# Where faults say nothing: what holds in a program without faults is not what tests notice.
UNINTERESTING = {"va_start", "va_end", "va_copy", "assert"}

# before and after: the lines that change, joined and stripped; they tell the change in reports and in the list of
# equivalent ones. lines: the first and the last line of the statement, which coverage is asked about, and body: those
# of its function; None in tables.
Change = collections.namedtuple("Change", "file line kind unit start end replacement before after lines body")


def room_of(file):
    """The room of src/ that a file is in, the two backends as rooms of their own, or "tools"."""
    parts = pathlib.PurePosixPath(file).parts
    if parts[0] != "src":
        return parts[0]
    return "/".join(parts[1:3]) if parts[1] == "backend" and parts[2] in ("cpu", "opencl") else parts[1]


def text_of(node):
    return node.text.decode("utf-8", "replace")


def descend(node):
    yield node
    for child in node.children:
        yield from descend(child)


# ---- What declarations say ----


class Declarations:
    """Types of functions' parameters, and the enumerators beside each enumerator, of all files together."""

    def __init__(self):
        self.parameters = {}
        self.beside = {}

    def read(self, tree):
        for node in descend(tree.root_node):
            if node.type == "function_declarator":
                self._read_function(node)
            elif node.type == "enumerator_list":
                names = [text_of(child.child_by_field_name("name"))
                         for child in node.named_children if child.type == "enumerator"]
                for name, following in zip(names, names[1:] + names[:1]):
                    if len(names) > 1:
                        self.beside[name] = following

    def _read_function(self, node):
        name, parameters = node.child_by_field_name("declarator"), node.child_by_field_name("parameters")
        if name is None or name.type != "identifier" or parameters is None:
            return
        types = []
        for parameter in parameters.named_children:
            declarator = parameter.child_by_field_name("declarator")
            text = text_of(parameter)
            names = [text_of(part) for part in descend(declarator) if part.type == "identifier"] if declarator else []
            types.append(re.sub(r"\s+|\bconst\b", "", re.sub(rf"\b{names[0]}\b", "", text) if names else text))
        known = self.parameters.setdefault(text_of(name), types)
        if known != types:  # two static functions of one name
            self.parameters[text_of(name)] = None


# ---- Constants ----


def other_numbers(text):
    """What a wrong constant could be."""
    if re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)[uUlL]*", text):
        digits = text.rstrip("uUlL")
        suffix = text[len(digits):]
        if digits[0] == "0" and digits[1:2] not in ("", "x", "X"):
            return []  # octal: a file's mode
        value = int(digits, 0)
        others = [value + 1] if value < 100 else [2 * value]
        others += [0] if value == 1 else []
        return [(hex(other) if digits[:2].lower() == "0x" else str(other)) + suffix for other in others]
    found = re.fullmatch(r"(\d*\.\d*)([fFlL]?)", text)
    if found:
        value = float(found[1])
        return [repr(2 * value if value else 1.0) + found[2]]
    found = re.fullmatch(r"(\d*\.?\d*)[eE]([+-]?\d+)([fFlL]?)", text)
    return [f"{found[1]}e{int(found[2]) + 1}{found[3]}"] if found else []


# ---- Faults ----


class Finder:
    """The changes of one file."""

    def __init__(self, file, source, declarations):
        self.file, self.source, self.declarations = file, source, declarations
        self.found = []
        self.unit = self.lines = self.body = None

    def add(self, kind, node, replacement, end=None):
        start, end = node.start_byte, end or node.end_byte
        removed = self.source[start:end]
        # A change leaves the number of every line as it is, so that equal object code shows that nothing changed.
        replacement = replacement.encode() + b"\n" * (removed.count(b"\n") - replacement.encode().count(b"\n"))
        first = self.source.rfind(b"\n", 0, start) + 1
        last = self.source.find(b"\n", end)
        last = len(self.source) if last < 0 else last
        before, after = self.source[first:last], self.source[first:start] + replacement + self.source[end:last]
        line = node.start_point[0] + 1
        texts = [" ".join(text.decode("utf-8", "replace").split()) for text in (before, after)]
        if texts[0] != texts[1]:
            self.found.append(Change(self.file, line, kind, self.unit, start, end, replacement, *texts, self.lines,
                                     self.body))

    def visit(self, node):
        if node.type in ("ERROR", "comment", "case_label") or node.type.startswith("preproc_def") or \
                node.type in ("preproc_include", "preproc_function_def", "static_assert_declaration") or \
                self.is_uninteresting(node):
            return
        if node.type in ("preproc_if", "preproc_ifdef", "preproc_elif"):
            skipped = [node.child_by_field_name("condition"), node.child_by_field_name("name")]
            children = [child for child in node.children if child not in skipped]
        else:
            children = node.children
        outer = self.unit, self.lines, self.body
        if node.type == "function_definition":
            names = [text_of(part) for part in descend(node.child_by_field_name("declarator"))
                     if part.type == "identifier"]
            self.unit = names[0] if names else "?"
        elif node.type == "declaration" and self.unit is None:
            self.unit = f"declaration in line {node.start_point[0] + 1}"
        if outer[0] is not None or node.type == "function_definition":
            self.place(node)
        if self.unit is not None:
            action = getattr(self, "at_" + node.type, None)
            if action:
                action(node)
        for child in children:
            self.visit(child)
        self.unit, self.lines, self.body = outer

    @staticmethod
    def is_uninteresting(node):
        called = node.named_children[0] if node.type == "expression_statement" and node.named_children else node
        return called.type == "call_expression" and text_of(called.child_by_field_name("function")) in UNINTERESTING

    def place(self, node):
        """The lines of the statement that node begins."""
        if node.type in ("expression_statement", "return_statement", "declaration", "break_statement"):
            self.lines = node.start_point[0] + 1, node.end_point[0] + 1
        elif node.type in ("if_statement", "while_statement", "for_statement", "switch_statement", "do_statement"):
            body = node.child_by_field_name("consequence") or node.child_by_field_name("body")
            last = max(body.start_point[0], node.start_point[0] + 1) if body else node.end_point[0] + 1
            self.lines = node.start_point[0] + 1, last
        elif node.type == "function_definition":
            self.lines = self.body = node.start_point[0] + 1, node.end_point[0] + 1

    def in_function(self):
        return self.lines is not None

    # -- Operators

    def at_binary_expression(self, node):
        operator, left, right = (node.child_by_field_name(name) for name in ("operator", "left", "right"))
        sign = operator.type
        if sign in COMPARISONS:
            self.add("comparison", operator, COMPARISONS[sign])
            if sign in ONE_OFF:
                bound = text_of(right) if right.type in SIMPLE else f"({text_of(right)})"
                self.add("off by one", right, f"{bound} {ONE_OFF[sign]}")
        elif sign in ARITHMETIC:
            self.add("arithmetic", operator, ARITHMETIC[sign])
        elif sign in ("&&", "||"):
            self.add("arithmetic", operator, "||" if sign == "&&" else "&&")
            self.add("condition dropped", node, text_of(left))
            self.add("condition dropped", node, text_of(right))

    def at_assignment_expression(self, node):
        operator = node.child_by_field_name("operator")
        if operator is not None and operator.type in ASSIGNMENTS:
            self.add("arithmetic", operator, ASSIGNMENTS[operator.type])

    def at_update_expression(self, node):
        operator = node.child_by_field_name("operator")
        self.add("arithmetic", operator, STEPS[operator.type])

    # -- Conditions

    def at_if_statement(self, node):
        condition = node.child_by_field_name("condition")
        inner = text_of(condition)[1:-1]
        if not re.search(r"[=!]=", inner) or "&&" in inner or "||" in inner:  # else the comparison is that change
            self.add("condition negated", condition, f"(!({inner}))")
        self.add("condition dropped", condition, f"(0 && ({inner}))")
        self.add("condition dropped", condition, f"(1 || ({inner}))")

    def at_conditional_expression(self, node):
        condition = node.child_by_field_name("condition")
        self.add("condition negated", condition, f"!({text_of(condition)})")

    # -- Statements

    def at_expression_statement(self, node):
        expression = node.named_children[0] if node.named_children else None
        if expression is None or expression.type not in ("call_expression", "assignment_expression",
                                                         "update_expression"):
            return
        if expression.type == "call_expression":
            name = text_of(expression.child_by_field_name("function"))
            arguments = expression.child_by_field_name("arguments")
            if name in CHECKING and any(part.type == "call_expression" for part in arguments.named_children):
                self.add("return value ignored", expression, f"(void){text_of(arguments)}")
        if node.parent.type != "for_statement":
            self.add("statement dropped", node, ";")

    def at_break_statement(self, node):
        self.add("statement dropped", node, ";")

    def at_continue_statement(self, node):
        self.add("statement dropped", node, ";")

    # -- Constants

    def at_number_literal(self, node):
        parent = node.parent.type
        if parent in ("array_declarator", "case_statement", "bitfield_clause", "unary_expression"):
            return
        for other in other_numbers(text_of(node)):
            self.add("constant", node, other)

    def at_true(self, node):
        self.add("constant", node, "false")

    def at_false(self, node):
        self.add("constant", node, "true")

    def at_identifier(self, node):
        name = text_of(node)
        following = self.declarations.beside.get(name)
        if following and name != "ICL_OK" and node.parent.type not in ("case_statement", "enumerator",
                                                                       "array_declarator"):
            self.add("constant", node, following)

    def at_string_literal(self, node):
        if not self.in_function():
            return
        text = text_of(node)
        for one, other in WORDS:
            for old, new in ((one, other), (other, one)):
                if re.search(rf"\b{old}\b", text):
                    self.add("constant", node, re.sub(rf"\b{old}\b", new, text, count=1))

    # -- Arguments and members

    def at_call_expression(self, node):
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        types = self.declarations.parameters.get(text_of(function))
        given = [part for part in arguments.named_children if part.type != "comment"]
        if not types or len(given) > len(types):
            return
        for place, (one, other) in enumerate(zip(given, given[1:])):
            if types[place] == types[place + 1] and text_of(one) != text_of(other):
                between = self.source[one.end_byte:other.start_byte].decode()
                self.add("arguments swapped", one, text_of(other) + between + text_of(one), other.end_byte)

    def at_initializer_pair(self, node):
        following = node.next_sibling
        if following is not None and following.type == ",":
            self.add("statement dropped", node, "", following.end_byte)
        elif len(node.parent.named_children) > 1:
            self.add("statement dropped", node, "")


def read_sources(root, files):
    """{file: (text, tree)} and what their declarations say, with those of the public headers."""
    sources, declarations = {}, Declarations()
    headers = [path.relative_to(root).as_posix() for path in sorted((root / "include").rglob("*.h"))]
    for file in headers + list(files):
        source = (root / file).read_bytes()
        tree = PARSER.parse(source)
        declarations.read(tree)
        if file in files:
            sources[file] = source, tree
    return sources, declarations


def changes_of(file, source, tree, declarations):
    finder = Finder(file, source, declarations)
    finder.visit(tree.root_node)
    return finder.found
