"""Fifty tools as real servers describe them, for tests and benchmarks of progressive skills.

They answer nothing useful: what counts is the size and the shape of their schemas. Long because fifty
schemas are one table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from artelier.errors import InvalidArguments
from artelier.ports.model import ToolSchema
from artelier.ports.tool import Risk, ToolContext, ToolPort
from artelier.tools.skills.skill import misfit

Schema = dict[str, Any]


def fifty_tools() -> list[ToolPort]:
    """Tools of issue trackers, code hosts, chats, databases, calendars, mail, payments, sales and files."""
    return [
        DescribedTool(f"{server}_{name}", description, parameters)
        for server, tools in SERVERS.items()
        for name, (description, parameters) in tools.items()
    ]


class DescribedTool:
    """A tool that is known by its schema alone and echoes its arguments."""

    def __init__(self, name: str, description: str, parameters: Schema) -> None:
        self.name = name
        self.description = description
        verb = name.partition("_")[2]
        self.side_effect = not verb.startswith(
            ("get", "list", "search", "find", "read", "query", "describe", "explain")
        )
        self.idempotent = False
        self.grant: str | None = None
        self.timeout_s: float | None = 30.0
        self.heartbeat_timeout_s: float | None = None
        self.risk: Risk = "low"
        self.trust = "untrusted"
        self._schema = ToolSchema(name=name, description=description, parameters=parameters)

    @property
    def schema(self) -> ToolSchema:
        return self._schema

    def validate(self, arguments: Any) -> dict[str, Any]:
        """Types, choices, required and unknown keys are checked. Errors: `InvalidArguments`."""
        problem = misfit(arguments, self._schema.parameters, where="arguments")
        if problem:
            raise InvalidArguments(f"arguments of `{self.name}` do not fit: {problem}")
        return dict(arguments)

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """The arguments again."""
        return {"tool": self.name, "arguments": arguments}

    @property
    def probe(self) -> Callable[[str, dict[str, Any]], Awaitable[Any]] | None:
        return None


def _s(description: str, /, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _i(description: str, low: int | None = None, high: int | None = None, **more: Any) -> Schema:
    bounds = {"minimum": low, "maximum": high}
    given = {key: value for key, value in bounds.items() if value is not None}
    return {"type": "integer", "description": description, **given, **more}


def _b(description: str, default: bool) -> Schema:
    return {"type": "boolean", "description": description, "default": default}


def _e(description: str, /, *choices: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, "enum": list(choices), **more}


def _l(description: str, items: Schema, **more: Any) -> Schema:
    return {"type": "array", "description": description, "items": items, **more}


def _o(description: str, required: str = "", /, **properties: Schema) -> Schema:
    made: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        made["required"] = required.split()
    return {**made, "description": description} if description else made


def _t(description: str, required: str, /, **properties: Schema) -> tuple[str, Schema]:
    return description, _o("", required, **properties)


_TEXT = {"type": "string"}
_CURSOR = _s("Opaque cursor returned by the previous call, to continue where that page ended.")
_LIMIT = _i("How many results to return per page.", 1, 100, default=20)
_ADF = _s("Rich text in Markdown. Headings, lists, tables, code blocks and @mentions by account id are kept.")
_OWNER = _s("Account that owns the repository: a user name or an organization. Not case sensitive.")
_REPO = _s("Name of the repository without the `.git` extension. Not case sensitive.")
_CHANNEL = _s(
    "Id of the channel, private group or direct message, such as C024BE91L. Names are not accepted."
)
_MONEY = _i("Amount in the smallest unit of the currency, for example 1099 for 10.99 USD.", 0)
_CURRENCY = _s("Three-letter ISO currency code in lower case, such as usd or eur.", minLength=3, maxLength=3)
_WHEN = _s("RFC 3339 timestamp with a UTC offset, such as 2026-03-01T09:30:00Z.", format="date-time")
_CALENDAR = _s(
    "Id of the calendar. Use `primary` for the main calendar of the signed-in user.", default="primary"
)

_JIRA = {
    "create_issue": _t(
        "Create a new issue in a Jira project. Returns the key and the browse URL of the created issue."
        " Fields that the project's screen does not show are rejected by the server.",
        "project_key issue_type summary",
        project_key=_s("Key of the project, such as PLAT. Must exist and be visible to the user."),
        issue_type=_e("Type of the issue.", "Bug", "Task", "Story", "Epic", "Sub-task"),
        summary=_s("One line that says what is wrong or wanted.", maxLength=255),
        description=_ADF,
        priority=_e("Priority in the project's scheme.", "Highest", "High", "Medium", "Low", "Lowest"),
        assignee_account_id=_s("Atlassian account id of the assignee; leave out for the project's default."),
        labels=_l("Labels to attach; unknown labels are created.", _TEXT, maxItems=20),
        parent_key=_s("Key of the epic or of the parent issue; required for sub-tasks."),
        due_date=_s("Date by which it should be done.", format="date"),
    ),
    "search_issues": _t(
        "Search issues with JQL and return the chosen fields. Prefer narrow queries with a project and an"
        " ORDER BY clause; results are paged and the server limits a page to 100 issues.",
        "jql",
        jql=_s(
            "Query in Jira Query Language, such as: project = PLAT AND status != Done ORDER BY updated DESC"
        ),
        fields=_l("Names of fields to return; *navigable for the default set.", _TEXT),
        expand=_l("Extra information.", _e("", "changelog", "renderedFields", "transitions")),
        start_at=_i("Index of the first result, counted from 0.", 0, default=0),
        max_results=_LIMIT,
    ),
    "get_issue": _t(
        "Get one issue by its key, with its fields and, if asked for, its comments and history.",
        "issue_key",
        issue_key=_s("Key of the issue, such as PLAT-123.", pattern="^[A-Z][A-Z0-9]+-[0-9]+$"),
        fields=_l("Names of fields to return; all navigable ones by default.", _TEXT),
        comments_max=_i("Newest comments to include; 0 for none.", 0, 100, default=10),
        include_history=_b("Whether to include who changed which field and when.", False),
        properties=_l("Names of entity properties to return with the issue.", _TEXT),
    ),
    "transition_issue": _t(
        "Move an issue to another status by performing a transition of its workflow. Call get_issue with"
        " expand=transitions first: the ids differ between workflows and between states.",
        "issue_key transition_id",
        issue_key=_s("Key of the issue, such as PLAT-123."),
        transition_id=_s("Id of the transition, as listed for this issue in its current status."),
        resolution=_e("Resolution to set, if the transition asks for one.", "Done", "Won't Do", "Duplicate"),
        comment=_ADF,
        fields={
            "type": "object",
            "additionalProperties": _TEXT,
            "description": "Values of other fields on the transition's screen, by field id.",
        },
    ),
    "add_comment": _t(
        "Add a comment to an issue. The author is the signed-in user; watchers are notified by mail.",
        "issue_key body",
        issue_key=_s("Key of the issue, such as PLAT-123."),
        body=_ADF,
        visibility=_o(
            "Restrict who sees the comment; everybody with access to the issue if left out.",
            "type value",
            type=_e("Sort of restriction.", "role", "group"),
            value=_s("Name of the role or of the group."),
        ),
        notify_users=_b("Whether watchers are notified by mail.", True),
    ),
    "list_sprints": _t(
        "List the sprints of a Scrum board with their state, goal and dates, newest first.",
        "board_id",
        board_id=_i("Numeric id of the board.", 1),
        state=_l("Only sprints in these states.", _e("", "future", "active", "closed")),
        include_issue_counts=_b("Whether to count issues by status category; slower.", False),
        start_at=_i("Index of the first result, counted from 0.", 0, default=0),
        max_results=_LIMIT,
    ),
}

_GITHUB = {
    "create_pull_request": _t(
        "Open a pull request from a branch that was pushed already. For a fork, write head as `user:branch`.",
        "owner repo title head base",
        owner=_OWNER,
        repo=_REPO,
        title=_s("Title of the pull request.", maxLength=256),
        head=_s("Branch that contains the changes."),
        base=_s("Branch that the changes should be merged into, usually main."),
        body=_s("Description in GitHub Flavored Markdown. `Fixes #12` closes that issue when merged."),
        draft=_b("Whether to open it as a draft that can't be merged yet.", False),
        maintainer_can_modify=_b("Whether maintainers may push to the head branch.", True),
    ),
    "list_pull_requests": _t(
        "List pull requests of a repository, filtered and sorted.",
        "owner repo",
        owner=_OWNER,
        repo=_REPO,
        state=_e("Only those in this state.", "open", "closed", "all", default="open"),
        head=_s("Only those from this branch, as `user:branch`."),
        base=_s("Only those into this branch."),
        sort=_e("What to sort by.", "created", "updated", "popularity", "long-running", default="created"),
        direction=_e("Direction of the sort.", "asc", "desc", default="desc"),
        page=_i("Page number, counted from 1.", 1, default=1),
        per_page=_LIMIT,
    ),
    "get_pull_request_diff": _t(
        "Get the unified diff of a pull request, whole or of chosen files. Large diffs are cut per file and"
        " each cut is marked.",
        "owner repo pull_number",
        owner=_OWNER,
        repo=_REPO,
        pull_number=_i("Number of the pull request.", 1),
        paths=_l("Only files that match one of these globs, such as src/**/*.py.", _TEXT),
        context_lines=_i("Unchanged lines around each change.", 0, 20, default=3),
        max_bytes_per_file=_i("Cut the diff of a single file beyond this size.", 1000, 500000, default=50000),
    ),
    "create_review": _t(
        "Submit a review of a pull request with an overall verdict and comments on lines.",
        "owner repo pull_number event",
        owner=_OWNER,
        repo=_REPO,
        pull_number=_i("Number of the pull request.", 1),
        event=_e("The verdict.", "APPROVE", "REQUEST_CHANGES", "COMMENT"),
        body=_s("Text of the review; required for REQUEST_CHANGES and COMMENT."),
        comments=_l(
            "Comments on lines of the diff.",
            _o(
                "",
                "path line body",
                path=_s("File, relative to the root of the repository."),
                line=_i("Line in the new version of the file.", 1),
                side=_e("Which version the line is of.", "LEFT", "RIGHT", default="RIGHT"),
                body=_s("Text of the comment in Markdown."),
            ),
        ),
    ),
    "search_code": _t(
        "Search code on GitHub. Only default branches and files below 384 KB are indexed; a query needs at"
        " least one search term besides its qualifiers.",
        "query",
        query=_s("Terms and qualifiers, such as: addClass in:file language:js repo:jquery/jquery"),
        sort=_e("Sort by how recently a file was indexed; best match if left out.", "indexed"),
        text_matches=_b("Whether to return the fragments that matched.", True),
        page=_i("Page number, counted from 1.", 1, default=1),
        per_page=_LIMIT,
    ),
    "create_issue": _t(
        "Open an issue in a repository.",
        "owner repo title",
        owner=_OWNER,
        repo=_REPO,
        title=_s("Title of the issue.", maxLength=256),
        body=_s("Text in GitHub Flavored Markdown. Use task lists for steps."),
        assignees=_l("User names to assign; only those with push access are kept.", _TEXT, maxItems=10),
        labels=_l("Names of labels; labels that do not exist are ignored without push access.", _TEXT),
        milestone=_i("Number of the milestone to attach.", 1),
    ),
    "get_file_contents": _t(
        "Read a file, or list a folder, at a branch, tag or commit of a repository.",
        "owner repo path",
        owner=_OWNER,
        repo=_REPO,
        path=_s("Path from the root of the repository, without a leading slash; empty for the root."),
        ref=_s("Branch, tag or commit SHA; the default branch if left out."),
        encoding=_e("How binary content is returned.", "base64", "omit", default="omit"),
        start_line=_i("First line to return, counted from 1.", 1),
        end_line=_i("Last line to return.", 1),
    ),
    "run_workflow": _t(
        "Start a GitHub Actions workflow that has a workflow_dispatch trigger. It returns as soon as the run"
        " is queued; poll list_workflow_runs for its outcome.",
        "owner repo workflow_id ref",
        owner=_OWNER,
        repo=_REPO,
        workflow_id=_s("Numeric id or file name of the workflow, such as deploy.yml."),
        ref=_s("Branch or tag to run it on."),
        inputs=_l(
            "Inputs that the workflow declares, at most 10.",
            _o("", "name value", name=_s("Name of the input."), value=_s("Its value, always as text.")),
            maxItems=10,
        ),
    ),
}

_SLACK = {
    "post_message": _t(
        "Send a message to a channel, or as a reply into a thread. Mention people as <@U123>; links are"
        " unfurled unless that is switched off.",
        "channel text",
        channel=_CHANNEL,
        text=_s(
            "Text in Slack's mrkdwn; also the fallback for notifications when blocks are given.",
            maxLength=4000,
        ),
        thread_ts=_s("Timestamp of the parent message, to reply into its thread."),
        reply_broadcast=_b("Whether a reply is also shown in the channel.", False),
        unfurl_links=_b("Whether links are expanded into previews.", True),
        metadata=_o(
            "Data that apps can read.",
            "event_type",
            event_type=_s("Name of the event in snake_case."),
            payload=_s("JSON as text."),
        ),
    ),
    "get_channel_history": _t(
        "Get messages of a channel, newest first. Replies in threads are not included; get_thread_replies has"
        " those.",
        "channel",
        channel=_CHANNEL,
        oldest=_s("Only messages after this Unix timestamp, such as 1512085950.000216."),
        latest=_s("Only messages before this Unix timestamp."),
        inclusive=_b("Whether messages with exactly those timestamps are included.", False),
        limit=_LIMIT,
        cursor=_CURSOR,
    ),
    "get_thread_replies": _t(
        "Get all messages of a thread, oldest first, beginning with the parent message.",
        "channel thread_ts",
        channel=_CHANNEL,
        thread_ts=_s("Timestamp of the thread's parent message."),
        oldest=_s("Only replies after this Unix timestamp."),
        include_all_metadata=_b("Whether metadata of apps is returned.", False),
        limit=_LIMIT,
        cursor=_CURSOR,
    ),
    "search_messages": _t(
        "Search messages of the workspace that the user can see. Supports in:, from:, before:, after: and"
        " has: modifiers and phrases in quotes.",
        "query",
        query=_s('Words and modifiers, such as: in:#support from:@kim "refund failed" after:2026-01-01'),
        sort=_e("Order of results.", "score", "timestamp", default="score"),
        sort_dir=_e("Direction.", "asc", "desc", default="desc"),
        highlight=_b("Whether matches are marked in the text.", False),
        count=_LIMIT,
        page=_i("Page number, counted from 1.", 1, 100, default=1),
    ),
    "upload_file": _t(
        "Upload a file and share it in a channel or thread. Text files get a preview with highlighting.",
        "channel filename content_base64",
        channel=_CHANNEL,
        filename=_s("Name with extension, such as report.csv."),
        content_base64=_s("The content, base64 encoded; at most 20 MB before encoding.", format="binary"),
        title=_s("Title that is shown instead of the name."),
        initial_comment=_s("Message that is posted with the file."),
        thread_ts=_s("Timestamp of a message, to share the file in its thread."),
        alt_text=_s("Description for screen readers, if it is an image.", maxLength=1000),
    ),
}

_POSTGRES = {
    "query": _t(
        "Run one read-only SQL statement in a transaction that is always rolled back. Values belong into"
        " parameters, never into the text. Results beyond the limit are cut and say so.",
        "sql",
        database=_s("Name of the connection; see list_databases.", default="main"),
        sql=_s("A single SELECT, WITH or VALUES statement with $1, $2, ... for parameters."),
        parameters=_l(
            "Values for the placeholders, in order.", {"type": ["string", "number", "boolean", "null"]}
        ),
        row_limit=_i("Rows to return at most.", 1, 10000, default=500),
        timeout_ms=_i("Cancel the statement after this time.", 100, 120000, default=15000),
        format=_e("Shape of rows.", "objects", "arrays", "csv", default="objects"),
    ),
    "describe_table": _t(
        "Describe a table or view: columns with types, defaults and comments, keys, indexes, row estimate.",
        "table",
        database=_s("Name of the connection; see list_databases.", default="main"),
        db_schema=_s("Schema that holds the table.", default="public"),
        table=_s("Name of the table or view, not quoted."),
        include_indexes=_b("Whether indexes with their sizes are listed.", True),
        include_foreign_keys=_b("Whether references in both directions are listed.", True),
        sample_rows=_i("Example rows to include; columns marked sensitive are masked.", 0, 20, default=0),
    ),
    "explain_query": _t(
        "Show the plan of a statement. With analyze the statement is executed and rolled back, so real times"
        " and row counts are shown.",
        "sql",
        database=_s("Name of the connection; see list_databases.", default="main"),
        sql=_s("The statement to explain."),
        parameters=_l(
            "Values for the placeholders, in order.", {"type": ["string", "number", "boolean", "null"]}
        ),
        analyze=_b("Whether it is executed to measure it.", False),
        buffers=_b("Whether use of shared buffers is shown; needs analyze.", False),
        format=_e("Shape of the plan.", "text", "json", "yaml", default="text"),
    ),
    "execute": _t(
        "Run data-changing SQL in one transaction: all statements or none. Schema changes are not allowed"
        " with this role. Returns the number of rows that each statement changed.",
        "statements",
        database=_s("Name of the connection; see list_databases.", default="main"),
        statements=_l(
            "Statements with their parameters, run in order.",
            _o(
                "",
                "sql",
                sql=_s("INSERT, UPDATE, DELETE or MERGE with $1, $2, ... for parameters."),
                parameters=_l("Values, in order.", {"type": ["string", "number", "boolean", "null"]}),
            ),
            minItems=1,
            maxItems=50,
        ),
        isolation=_e("Isolation level.", "read committed", "repeatable read", "serializable"),
        expected_rows_max=_i("Roll back if more rows than this would change.", 0, default=1000),
    ),
}

_CALENDARS = {
    "create_event": _t(
        "Create an event in a calendar and invite people. Times need a zone; recurring events take an RRULE.",
        "summary start end",
        calendar_id=_CALENDAR,
        summary=_s("Title of the event."),
        start=_WHEN,
        end=_WHEN,
        time_zone=_s("IANA zone in which a recurring event is expanded, such as Europe/Berlin."),
        attendees=_l("Mail addresses of people to invite.", _s("", format="email"), maxItems=200),
        recurrence=_l("RRULE, EXDATE and RDATE lines as in RFC 5545.", _TEXT),
        location=_s("Address or room as free text."),
        conference=_b("Whether a video conference is attached.", False),
        send_updates=_e("Who is notified.", "all", "externalOnly", "none", default="all"),
    ),
    "list_events": _t(
        "List events of a calendar in a window of time, recurring ones expanded into instances.",
        "time_min time_max",
        calendar_id=_CALENDAR,
        time_min=_WHEN,
        time_max=_WHEN,
        q=_s("Only events in which these words occur in title, description, place or attendees."),
        single_events=_b("Whether recurring events are expanded.", True),
        order_by=_e("Order of results.", "startTime", "updated", default="startTime"),
        max_results=_LIMIT,
        page_token=_CURSOR,
    ),
    "find_free_time": _t(
        "Find slots in which all given people are free, within their working hours.",
        "attendees duration_minutes time_min time_max",
        attendees=_l(
            "Mail addresses whose calendars are compared.", _s("", format="email"), minItems=1, maxItems=50
        ),
        duration_minutes=_i("Length of the slot.", 5, 480),
        time_min=_WHEN,
        time_max=_WHEN,
        working_hours_only=_b("Whether only working hours of every attendee count.", True),
        buffer_minutes=_i("Time to keep free before and after.", 0, 60, default=0),
        max_slots=_i("How many slots to return.", 1, 50, default=5),
    ),
    "update_event": _t(
        "Change fields of an event; fields that are left out stay as they are.",
        "event_id",
        calendar_id=_CALENDAR,
        event_id=_s("Id of the event, or of one instance of a recurring event."),
        summary=_s("New title."),
        start=_WHEN,
        end=_WHEN,
        add_attendees=_l("Mail addresses to invite as well.", _s("", format="email")),
        remove_attendees=_l("Mail addresses to take off.", _s("", format="email")),
        scope=_e("Which instances of a recurring event change.", "this", "following", "all", default="this"),
        send_updates=_e("Who is notified.", "all", "externalOnly", "none", default="all"),
    ),
    "delete_event": _t(
        "Delete an event, or one instance of a recurring event. Attendees get a cancellation.",
        "event_id",
        calendar_id=_CALENDAR,
        event_id=_s("Id of the event, or of one instance of a recurring event."),
        scope=_e("Which instances of a recurring event go.", "this", "following", "all", default="this"),
        send_updates=_e("Who is notified.", "all", "externalOnly", "none", default="all"),
        comment=_s("Text that is added to the cancellation mail.", maxLength=1000),
        etag=_s("Only delete if the event still has this entity tag, as list_events returned it."),
    ),
}

_MAIL = {
    "search_threads": _t(
        "Search mail threads with Gmail's operators and return subject, people, date and a snippet.",
        "query",
        query=_s("Words and operators, such as: from:billing@example.org has:attachment newer_than:30d"),
        label_ids=_l("Only threads with all of these labels.", _TEXT),
        include_spam_trash=_b("Whether spam and trash are searched too.", False),
        snippet_chars=_i("Length of the snippet of the newest message.", 0, 500, default=120),
        max_results=_LIMIT,
        page_token=_CURSOR,
    ),
    "read_thread": _t(
        "Read all messages of a thread as plain text, oldest first, with quoted history removed.",
        "thread_id",
        thread_id=_s("Id of the thread."),
        body_format=_e("Form of the bodies.", "text", "html", "both", default="text"),
        strip_quotes=_b("Whether quoted earlier messages are removed.", True),
        include_attachment_names=_b("Whether names, types and sizes of attachments are listed.", True),
        max_chars=_i("Cut each body beyond this length.", 100, 200000, default=20000),
        mark_as_read=_b("Whether the thread is marked as read.", False),
    ),
    "send_mail": _t(
        "Send a mail, new or as an answer. It leaves at once and cannot be called back; use create_draft when"
        " a person should look at it first.",
        "to subject body",
        to=_l("Recipients.", _s("", format="email"), minItems=1, maxItems=100),
        cc=_l("Recipients of copies.", _s("", format="email")),
        bcc=_l("Recipients whom the others do not see.", _s("", format="email")),
        subject=_s("Subject line.", maxLength=998),
        body=_s("Text of the mail."),
        body_type=_e("What the text is.", "text/plain", "text/html", default="text/plain"),
        in_reply_to=_s("Message-ID of the mail that this answers, to keep it in its thread."),
        attachments=_l(
            "Files to attach.",
            _o("", "file_id", file_id=_s("Id of a stored file."), name=_s("Name that recipients see.")),
        ),
    ),
    "modify_labels": _t(
        "Add and remove labels of threads, for example to archive, star or file them.",
        "thread_ids",
        thread_ids=_l("Ids of threads, at most 1000.", _TEXT, minItems=1, maxItems=1000),
        add_label_ids=_l("Labels to add; system labels are STARRED, UNREAD, IMPORTANT, INBOX.", _TEXT),
        remove_label_ids=_l("Labels to take off; removing INBOX archives a thread.", _TEXT),
        create_missing=_b("Whether labels that do not exist are created.", False),
        label_color=_e("Colour of labels that are created.", "red", "orange", "green", "blue", "grey"),
    ),
}

_STRIPE = {
    "create_customer": _t(
        "Create a customer to whom invoices, subscriptions and payment methods can be attached.",
        "email",
        email=_s("Mail address; receipts go there.", format="email"),
        name=_s("Full name of the person or company.", maxLength=256),
        phone=_s("Phone number in E.164 form."),
        address=_o(
            "Billing address.",
            "line1 country",
            line1=_s("Street and number."),
            line2=_s("Apartment or suite."),
            city=_s("City."),
            postal_code=_s("Postal code."),
            country=_s("Two-letter ISO country code."),
        ),
        tax_exempt=_e("Tax status.", "none", "exempt", "reverse", default="none"),
        description=_s("Note that only the dashboard shows."),
    ),
    "create_payment_link": _t(
        "Create a link to a hosted page on which anybody can pay for the given prices.",
        "line_items",
        line_items=_l(
            "What is sold.",
            _o(
                "",
                "price quantity",
                price=_s("Id of a price, such as price_1MoBy5LkdIwHu7ix."),
                quantity=_i("How many.", 1, 999999),
                adjustable=_b("Whether the buyer may change the quantity.", False),
            ),
            minItems=1,
            maxItems=20,
        ),
        after_completion_url=_s("Where the buyer is sent after paying.", format="uri"),
        allow_promotion_codes=_b("Whether promotion codes are accepted.", False),
        collect_phone_number=_b("Whether a phone number is asked for.", False),
    ),
    "create_refund": _t(
        "Refund a charge, whole or in part. Fees are not returned; the money arrives within 5 to 10 days.",
        "payment_intent",
        payment_intent=_s("Id of the payment intent, such as pi_3MmlLrLkdIwHu7ix."),
        amount=_MONEY,
        currency=_CURRENCY,
        reason=_e("Reason that is recorded.", "duplicate", "fraudulent", "requested_by_customer"),
        reverse_transfer=_b("Whether a transfer to a connected account is reversed as well.", False),
        idempotency_key=_s("A key that makes repeating this call harmless.", maxLength=255),
    ),
    "list_invoices": _t(
        "List invoices, newest first, with totals, status and links to their PDF.",
        "",
        customer=_s("Only invoices of this customer, such as cus_NffrFeUfNV2Hib."),
        status=_e("Only invoices in this state.", "draft", "open", "paid", "uncollectible", "void"),
        created_after=_WHEN,
        created_before=_WHEN,
        collection_method=_e("How they are collected.", "charge_automatically", "send_invoice"),
        limit=_LIMIT,
        starting_after=_CURSOR,
    ),
    "update_subscription": _t(
        "Change a subscription: its plan, quantity or end. Changes are prorated unless said otherwise.",
        "subscription",
        subscription=_s("Id of the subscription, such as sub_1MowQVLkdIwHu7ix."),
        price=_s("Id of the new price; leave out to keep the plan."),
        quantity=_i("New quantity.", 0, 100000),
        cancel_at_period_end=_b("Whether it ends when the paid period does.", False),
        proration_behavior=_e(
            "What happens to the difference.", "create_prorations", "always_invoice", "none"
        ),
        trial_end=_WHEN,
        pause_collection=_e(
            "Whether collecting is paused, and how invoices are kept.", "keep_as_draft", "void"
        ),
    ),
}

_CRM = {
    "search_records": _t(
        "Search records of one object type with filters, and return the chosen fields.",
        "object_type",
        object_type=_e("Sort of record.", "Account", "Contact", "Lead", "Opportunity", "Case"),
        filters=_l(
            "Conditions that all must hold.",
            _o(
                "",
                "field operator value",
                field=_s("API name of the field, such as StageName."),
                operator=_e("Comparison.", "eq", "ne", "gt", "gte", "lt", "lte", "like", "in"),
                value=_s("Value to compare with; for `in`, values separated by commas."),
            ),
        ),
        fields=_l("API names of fields to return.", _TEXT),
        order_by=_s("Field to sort by, with ` desc` for descending order."),
        limit=_LIMIT,
        cursor=_CURSOR,
    ),
    "create_lead": _t(
        "Create a lead. Assignment rules run, so its owner may be another person than the signed-in user.",
        "last_name company",
        first_name=_s("First name.", maxLength=40),
        last_name=_s("Last name.", maxLength=80),
        company=_s("Company that the lead works for.", maxLength=255),
        email=_s("Mail address.", format="email"),
        phone=_s("Phone number."),
        source=_e("Where the lead came from.", "Web", "Referral", "Event", "Partner", "Other"),
        rating=_e("How warm it is.", "Hot", "Warm", "Cold"),
        notes=_s("Free text for the sales team.", maxLength=32000),
        campaign_id=_s("Id of a campaign to which the lead is added as a member."),
    ),
    "update_opportunity": _t(
        "Change fields of an opportunity. Moving it to a closed stage sets its close date to today.",
        "opportunity_id",
        opportunity_id=_s("Id of the opportunity, 15 or 18 characters."),
        stage=_e(
            "Stage in the sales process.",
            "Prospecting",
            "Qualification",
            "Proposal",
            "Negotiation",
            "Closed Won",
            "Closed Lost",
        ),
        amount=_MONEY,
        close_date=_s("Expected date of the decision.", format="date"),
        probability=_i("Chance of winning in percent.", 0, 100),
        next_step=_s("What happens next.", maxLength=255),
        loss_reason=_s("Required when it is lost."),
    ),
    "log_activity": _t(
        "Record a call, meeting, mail or task on the timeline of a record.",
        "record_id activity_type subject",
        record_id=_s("Id of the account, contact, lead, opportunity or case."),
        activity_type=_e("What it was.", "call", "meeting", "email", "task"),
        subject=_s("One line for the timeline.", maxLength=255),
        description=_s("What was said and agreed.", maxLength=32000),
        at=_WHEN,
        duration_minutes=_i("How long it took.", 0, 1440),
        participants=_l("Ids of contacts who took part.", _TEXT),
    ),
}

_DRIVE = {
    "search_files": _t(
        "Search files by name, content, type and owner. Returns ids, which other tools of this server take.",
        "",
        text=_s("Words that occur in the name or in the content."),
        mime_types=_l("Only these types, such as application/pdf.", _TEXT),
        owner=_s("Mail address of the owner.", format="email"),
        in_folder=_s("Id of a folder; its subfolders are searched too."),
        modified_after=_WHEN,
        trashed=_b("Whether files in the trash are included.", False),
        page_size=_LIMIT,
        page_token=_CURSOR,
    ),
    "read_document": _t(
        "Read a document, sheet or PDF as text. Sheets come as CSV, one part per tab.",
        "file_id",
        file_id=_s("Id of the file."),
        export_format=_e("Form of the text.", "markdown", "plain", "csv", default="markdown"),
        sheet=_s("Name of one tab of a spreadsheet; all tabs if left out."),
        cell_range=_s("Range in A1 notation, such as B2:F40."),
        page_from=_i("First page of a PDF.", 1),
        page_to=_i("Last page of a PDF.", 1),
        max_chars=_i("Cut the text beyond this length.", 100, 500000, default=50000),
    ),
    "create_document": _t(
        "Create a document from Markdown in a folder. Headings, lists, tables, links and images are"
        " converted.",
        "title markdown",
        title=_s("Title of the document.", maxLength=400),
        markdown=_s("Content."),
        folder_id=_s("Id of the folder; My Drive if left out."),
        template_id=_s("Id of a document whose styles are taken."),
        share_with=_l(
            "People who get access.",
            _o(
                "",
                "email role",
                email=_s("Mail address.", format="email"),
                role=_e("What they may do.", "reader", "commenter", "writer"),
            ),
        ),
        notify=_b("Whether they get a mail.", True),
    ),
    "append_rows": _t(
        "Append rows below the last row of a table in a spreadsheet.",
        "file_id sheet rows",
        file_id=_s("Id of the spreadsheet."),
        sheet=_s("Name of the tab."),
        rows=_l(
            "Rows, each a list of cells in the order of columns.",
            _l("Cells of one row.", {"type": ["string", "number", "boolean", "null"]}),
            minItems=1,
            maxItems=5000,
        ),
        value_input=_e("Whether text is parsed as if typed.", "RAW", "USER_ENTERED", default="USER_ENTERED"),
        insert=_e("What happens to rows below the table.", "OVERWRITE", "INSERT_ROWS", default="INSERT_ROWS"),
        header_row=_i("Row that holds the names of columns, counted from 1.", 1, default=1),
    ),
    "share_file": _t(
        "Give a person, group or domain access to a file or folder, or change what access they have.",
        "file_id role type",
        file_id=_s("Id of the file or folder."),
        role=_e("What they may do.", "reader", "commenter", "writer", "organizer"),
        type=_e("Who gets access.", "user", "group", "domain", "anyone"),
        target=_s("Mail address or domain; not for `anyone`."),
        expires_at=_WHEN,
        message=_s("Text of the notification.", maxLength=2000),
        allow_discovery=_b("Whether the file can be found by search; for domain and anyone.", False),
    ),
}

_PAGING = {
    "create_incident": _t(
        "Open an incident and page whoever is on call for the service.",
        "service_id title",
        service_id=_s("Id of the service, such as PIJ90N7."),
        title=_s("What is broken, in one line.", maxLength=1024),
        urgency=_e("Decides how people are notified.", "high", "low", default="high"),
        body=_s("Details: what was seen, since when, what was tried."),
        priority_id=_s("Id of a priority such as P1."),
        escalation_policy_id=_s("Id of an escalation policy to use instead of the service's own."),
        assignee_ids=_l("Ids of users to page instead of those on call.", _TEXT),
        dedup_key=_s("Incidents with one key are merged while open.", maxLength=255),
    ),
    "list_on_call": _t(
        "List who is on call, by escalation level, now or in a window of time.",
        "",
        schedule_ids=_l("Only these schedules.", _TEXT),
        escalation_policy_ids=_l("Only these escalation policies.", _TEXT),
        since=_WHEN,
        until=_WHEN,
        earliest=_b("Whether only the next shift of each person is returned.", False),
        time_zone=_s("IANA zone in which times are returned.", default="UTC"),
        include=_l("Records to embed.", _e("", "users", "schedules", "escalation_policies")),
        limit=_LIMIT,
    ),
}

_PLACES = {
    "search_places": _t(
        "Search places by text near a position, with opening hours and ratings.",
        "text",
        text=_s("What is wanted, such as: vegetarian restaurant with a terrace."),
        latitude={"type": "number", "description": "Latitude of the centre.", "minimum": -90, "maximum": 90},
        longitude={
            "type": "number",
            "description": "Longitude of the centre.",
            "minimum": -180,
            "maximum": 180,
        },
        radius_m=_i("How far from the centre.", 1, 50000, default=2000),
        open_now=_b("Whether only places that are open now are returned.", False),
        min_rating={
            "type": "number",
            "description": "Only places rated at least so.",
            "minimum": 0,
            "maximum": 5,
        },
        language=_s("Language of names, as a BCP 47 tag.", default="en"),
        limit=_LIMIT,
    ),
    "get_directions": _t(
        "Compute a route between two places, with its duration, distance and steps.",
        "origin destination",
        origin=_s("Address, place id or `latitude,longitude`."),
        destination=_s("Address, place id or `latitude,longitude`."),
        mode=_e("How to travel.", "driving", "walking", "bicycling", "transit", default="driving"),
        waypoints=_l("Places to pass, in order.", _TEXT, maxItems=25),
        departure_time=_WHEN,
        avoid=_l("What to avoid.", _e("", "tolls", "highways", "ferries")),
        alternatives=_b("Whether more than one route is returned.", False),
        units=_e("Units of distances.", "metric", "imperial", default="metric"),
    ),
}

SERVERS: Mapping[str, Mapping[str, tuple[str, Schema]]] = {
    "jira": _JIRA,
    "github": _GITHUB,
    "slack": _SLACK,
    "postgres": _POSTGRES,
    "calendar": _CALENDARS,
    "mail": _MAIL,
    "stripe": _STRIPE,
    "crm": _CRM,
    "drive": _DRIVE,
    "paging": _PAGING,
    "places": _PLACES,
}
