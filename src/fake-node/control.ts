import { type Answer, isPartialAnswer } from './answer.ts'
import { errorBody, jsonHeaders } from './bodies.ts'
import { type Fault, parseFaults } from './faults.ts'
import type { Exchange } from './http-connection.ts'
import type { NodeStats } from './node-log.ts'

export const controlPaths: readonly string[] = ['/faults', '/answer', '/stats']

export interface Controlled {
  stats(): NodeStats
  faults(): readonly Fault[]
  applyFaults(faults: readonly Fault[]): void
  changeAnswer(change: Partial<Answer>): Answer
}

const refuseOverHttpMs = 10_000

export function answerControl(exchange: Exchange, node: Controlled): void {
  const { path } = exchange.request
  if (path === '/faults') answerFaults(exchange, node)
  else if (path === '/answer') answerAnswer(exchange, node)
  else show(exchange, node.stats())
}

function answerAnswer(exchange: Exchange, node: Controlled): void {
  const change = exchange.request.method === 'POST' ? parsedBody(exchange.request.body) : {}
  if (isPartialAnswer(change)) show(exchange, node.changeAnswer(change))
  else exchange.respond(400, jsonHeaders, errorBody(400, 'not an answer: see the fields of GET /answer'))
}

function answerFaults(exchange: Exchange, node: Controlled): void {
  const { method, body } = exchange.request
  if (method === 'GET') {
    show(exchange, { faults: node.faults() })
    return
  }
  const faults = method === 'DELETE' ? [] : parseFaults(parsedBody(body))
  if (faults === null) {
    exchange.respond(400, jsonHeaders, errorBody(400, 'not a fault or a list of faults'))
    return
  }
  // A closed port takes no DELETE, so over HTTP it always opens again by itself.
  const bounded = faults.map((entry) => (entry.kind === 'refuse' ? { ms: refuseOverHttpMs, ...entry } : entry))
  node.applyFaults(bounded)
  show(exchange, { faults: bounded })
}

function show(exchange: Exchange, shown: unknown): void {
  exchange.respond(200, jsonHeaders, JSON.stringify(shown))
}

/** Parsed JSON; the raw text where it is no JSON. */
export function parsedBody(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return body
  }
}
