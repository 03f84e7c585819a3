/** A word that nothing else can contain; `what` tells in a failure whose it was. */
const mark = (what: string) => `mk-${what}-${crypto.randomUUID().replaceAll('-', '')}`

/** What must be found nowhere: contents, and everything a client or a node says beside them. */
export const contents = {
  prompt: mark('prompt'),
  system: mark('system'),
  output: mark('output'),
  reasoning: mark('reasoning'),
  toolName: mark('tool'),
  toolArguments: mark('arguments'),
  toolResult: mark('result'),
  image: mark('image'),
  stop: mark('stop'),
  endUser: mark('user'),
  metadata: mark('metadata'),
  unknownField: mark('field'),
  query: mark('query'),
  path: mark('path'),
  userAgent: mark('agent'),
  cookie: mark('cookie'),
  referer: mark('referer'),
  forwarded: mark('forwarded'),
  trace: mark('trace'),
  idempotencyKey: mark('idempotency'),
  strangeRequestId: mark('strange'),
  wrongToken: mark('token'),
  wrongCustomer: mark('customer'),
  adminField: mark('adminfield'),
  adminValue: mark('adminvalue'),
  nodeHeader: mark('nodeheader'),
  nodeKey: mark('nodekey'),
  nodeError: mark('nodeerror'),
} as const

/** May be read where the specification names it, and nowhere else. */
export const named = {
  /** Logs, as `client_request_id`. */
  requestId: mark('requestid'),
  /** Logs and receipts, as `job_id`. */
  jobId: `job-${mark('job')}`,
  /** Admins from operator up, and the row of the node. */
  nodePath: mark('nodepath'),
  /** Events of the audit, as `reason`. */
  reason: mark('reason'),
  /** Sent to the node. */
  apiKey: mark('apikey'),
} as const

/** A request with something to hide in every part. */
export function markedChat(more: object = {}): object {
  return {
    model: 'm',
    messages: [
      { role: 'system', content: contents.system },
      {
        role: 'user',
        content: [
          { type: 'text', text: contents.prompt },
          { type: 'image_url', image_url: { url: `https://example.com/${contents.image}.png` } },
        ],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: contents.toolName, arguments: contents.toolArguments } },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: contents.toolResult },
    ],
    tools: [{ type: 'function', function: { name: contents.toolName, parameters: { type: 'object' } } }],
    stop: [contents.stop],
    user: contents.endUser,
    metadata: { note: contents.metadata },
    [contents.unknownField]: contents.unknownField,
    svc: { job_id: named.jobId },
    ...more,
  }
}

export const markedHeaders = {
  'user-agent': contents.userAgent,
  cookie: `session=${contents.cookie}`,
  referer: `https://example.com/${contents.referer}`,
  'x-forwarded-for': contents.forwarded,
  traceparent: contents.trace,
  tracestate: `a=${contents.trace}`,
  'idempotency-key': contents.idempotencyKey,
} as const

/** Where something was found and whose it was; empty when nothing was. */
export function findAll(place: string, texts: readonly string[], secrets: Readonly<Record<string, string>>): string[] {
  return Object.entries(secrets).flatMap(([name, secret]) => {
    const text = texts.find((one) => one.includes(secret))
    if (text === undefined) return []
    const at = text.indexOf(secret)
    return [`${name} in ${place}: …${text.slice(Math.max(0, at - 60), at + secret.length + 60)}…`]
  })
}
