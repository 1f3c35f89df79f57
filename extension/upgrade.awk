# Writes what brings the objects of a released version to those of sql/.
# usage: awk -f upgrade.awk RELEASED_INSTALL_SCRIPT SOURCE...
#
# - Functions, procedures, views and triggers are replaced, all of them: CREATE becomes CREATE OR REPLACE.
# - Any other statement is left out when the released script has it word for word; so is a CREATE of a table, index,
#   sequence or type of a name that the released script makes too. What changed of those is for upgrade/OLD--NEW.sql to say,
#   and what is no more for it to drop. tests/upgrade compares the outcome with a fresh installation.
# - A replaced trigger fires as a new one does: what ALTER TABLE says of when it fires is said again.
# - Grants are left out likewise. New ones make everything the object is granted at that moment, to the application's roles
#   too, initial privileges, which pg_dump does not dump: initial_privileges.sql, at the end, sets that right.
# - DO blocks look at the server before an installation: left out, but for those quoted by $new$, which are about what is new.
#
# It reads sql/ as it is written there: a statement begins at the beginning of a line, and no line of a body looks like one.

function begins() { return /^(CREATE|ALTER|DROP|COMMENT|GRANT|REVOKE|SELECT|INSERT|DO)[ \t]/ }
function is_of_a_trigger(statement) { return statement ~ /^ALTER TABLE [^ ]+ (ENABLE|DISABLE) .*TRIGGER / }
function is_replaced() { return /^(CREATE (FUNCTION|PROCEDURE|VIEW|TRIGGER)|DO \$new\$)/ }

# Tables that upgrade/OLD--NEW.sql gives another name, which have their old one in the released script.
BEGIN { renamed["graphrag._attached_tables"] = "graphrag.attached_tables" }

# What tells a statement from others: the name of what it makes, or the whole of it.
function identity(statement,    words) {
    if (statement ~ /^CREATE (TABLE|SEQUENCE|TYPE|INDEX|UNIQUE INDEX) /) {
        sub(/^CREATE UNIQUE INDEX /, "CREATE INDEX ", statement)
        split(statement, words, /[ \t\n(]+/)
        return words[1] " " words[2] " " (words[3] in renamed ? renamed[words[3]] : words[3])
    }
    return statement
}

FNR == 1 { released = ++files == 1; statement = ""; in_block = in_view = 0; if (!released) print "" }

in_block { if (/^\$[a-z_]*\$;/) in_block = 0; next }
/^DO[ \t]/ && !is_replaced() { in_block = 1; next }

# The query of a view begins at the beginning of a line too.
/^CREATE VIEW / { in_view = 1 }
!in_view && statement == "" && begins() && !is_replaced() { statement = $0; if (/;$/) finish(); next }
statement != "" { statement = statement "\n" $0; if (/;$/) finish(); next }
in_view && /;$/ { in_view = 0 }

released { next }
is_replaced() { sub(/^CREATE /, "CREATE OR REPLACE ") }
{ print }

# A grant on a list, an object a line, is as many statements: what is new on the list is granted, and nothing again.
function finish(    lines, last, i) {
    last = split(statement, lines, "\n")
    if (statement ~ /^GRANT / && last > 2) {
        for (i = 2; i < last; i++) {
            sub(/,$/, "", lines[i])
            settle(lines[1] lines[i] " " lines[last])
        }
    } else
        settle(statement)
    statement = ""
}

function settle(one) {
    if (released)
        known[identity(one)] = 1
    else if (is_of_a_trigger(one) || !(identity(one) in known))
        print one
}
