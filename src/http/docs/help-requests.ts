import type { HelpFamily } from './error-help.ts'

export const helpRequests = {
  title: 'The request itself',
  codes: {
    invalid_json: {
      means: 'The body is not JSON in UTF-8, names a key twice, or is deeper or wider than the gateway reads.',
      next: 'Check the body with a JSON parser. The message says which key comes twice, or which bound was broken.',
    },
    invalid_request: {
      means: 'A field of the body is missing, unknown, or has a value that does not fit.',
      next: 'Read the message: it names the field (`param`), what it must be, and what you sent. With `application/problem+json`, `errors` lists all fields that are wrong.',
    },
    invalid_parameter: {
      means: 'A parameter of the query or a header has a value that does not fit, or comes twice.',
      next: 'The message names the parameter and what it must be. `/docs` lists the parameters of each route.',
    },
    payload_too_large: {
      means: 'The body has more bytes than this route takes.',
      next: 'Send less: fewer or smaller messages, pictures or documents. The message names the limit; an operator can raise the one of chat (`SVC_CHAT_BODY_BYTES_MAX`).',
    },
    unsupported_media_type: {
      means: 'The headers do not say that the body is JSON in UTF-8, or the body is compressed.',
      next: 'Send `Content-Type: application/json` and no `Content-Encoding`. Routes for sound and pictures take `multipart/form-data`.',
    },
    route_not_found: {
      means: 'The gateway serves nothing at this path.',
      next: 'Check the base URL of your client, which ends with `/v1`. The message names the right one where it can; `/docs` lists all routes.',
    },
    method_not_allowed: {
      means: 'The path exists, but not for this method.',
      next: 'Use one of the methods in the header `Allow`.',
    },
    misdirected_request: {
      means:
        'The Ollama interface was called by a host name that it does not know. It refuses those so that no web page can reach it.',
      next: 'Call it by its own address, or ask the operator to add the name to `SVC_ALLOWED_HOSTS`.',
    },
    models_managed_elsewhere: {
      means:
        'Your program tried to pull, create or delete a model. Models are managed on the nodes, not by clients of the gateway.',
      next: 'Pull or remove the model on the node itself, or ask the operator.',
    },
    n_not_supported: {
      means: 'The request asks for several choices (`n` above 1). A chat gives one.',
      next: 'Leave `n` out, and send the request several times for several answers.',
    },
    private_job_not_supported: {
      means: '`svc.dispatch_mode` is `private_job`, which chat does not take.',
      next: 'Send private jobs to `POST /v1/api/private-inference/jobs`.',
    },
    dispatch_mode_invalid: {
      means: '`svc.dispatch_mode` has a value other than `pooled_sync`.',
      next: 'Leave the field out.',
    },
    private_job_payload_not_allowed: {
      means: 'The body has a field of a private job, such as `encrypted_request`.',
      next: 'Remove the field, or send the job to `POST /v1/api/private-inference/jobs`.',
    },
    direct_node_targeting_not_allowed: {
      means: 'The body names a node or an address directly. The gateway chooses the node.',
      next: 'Remove the field. To use one node of your own, send `svc.node_id`.',
    },
    node_pin_conflict: {
      means: '`node_id` in the query and `svc.node_id` in the body name different nodes.',
      next: 'Send one of them.',
    },
    modality_not_supported: {
      means: 'The model exists, but it does not do this kind of work: a chat model cannot rank, for example.',
      next: 'Choose a model for this kind of work. `GET /v1/models` says what each model is for (`svc.serves`). If the model does this work and the gateway does not know it, its operator declares it: `./penstock nodes set NODE --serves MODEL=rerank`.',
    },
    context_length_exceeded: {
      means: "The prompt has more tokens than the model's context holds.",
      next: 'Shorten the prompt, or choose a model with a larger context. The message has both numbers, and says whether the first one is an estimate.',
    },
    unsupported_input: {
      means: 'The model does not take this kind of input, such as pictures.',
      next: 'Leave that part out, or choose a model that takes it.',
    },
    tool_not_supported: {
      means:
        'The request has a tool that the provider would run on its own servers, such as web search. The gateway runs no tools.',
      next: 'Send only functions, which your program runs.',
    },
    responses_not_stored: {
      means: 'The request builds on an answer that the server should have stored. The gateway stores none.',
      next: 'Send the whole conversation each time, without `previous_response_id`, `conversation` or `background`.',
    },
    max_tokens_exceeded: {
      means: 'The request asks for more output tokens than the policy of the key or its account allows.',
      next: 'Send a smaller `max_tokens`. The message has both numbers.',
    },
    idempotency_in_progress: {
      means: 'A request with the same `Idempotency-Key` is still running.',
      next: 'Wait for it, or repeat this request after the time in `Retry-After`.',
    },
    idempotency_completed: {
      means: 'A request with the same `Idempotency-Key` was answered and billed. The answer is not stored.',
      next: 'Take `error.svc.original` for the receipt. Use a new key to ask again, which is billed again.',
    },
    idempotency_key_reused: {
      means: 'The same `Idempotency-Key` came with another body.',
      next: 'Use a new key for each request.',
    },
  },
} as const satisfies HelpFamily
