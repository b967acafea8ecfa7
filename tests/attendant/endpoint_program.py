"""A model endpoint for one trial, run inside a container: plays commands in order, asks for the right bearer.

Arguments: the bearer and a JSON list of shell commands. Prints one line for each request to standard output.
"""

import http.server
import json
import sys

TOKEN, COMMANDS = sys.argv[1], json.loads(sys.argv[2])
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer(401, {"error": {"message": "unknown bearer"}})
            return
        spoken = sum(message.get("role") == "assistant" for message in body["messages"])
        command = COMMANDS[spoken] if spoken < len(COMMANDS) else SUBMIT
        print(f"request {spoken} {body.get('max_tokens')}", flush=True)
        self.answer(200, completion(body["model"], command))

    def answer(self, status, document):
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def completion(model, command):
    call = {"name": "bash", "arguments": json.dumps({"command": command})}
    message = {
        "role": "assistant",
        "content": "Scripted.",
        "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
    }
    return {
        "id": "scripted",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
