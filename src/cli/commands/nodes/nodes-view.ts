import { hardwareWords } from '../../../actions/frame/hardware-words.ts'
import type { Node } from '../../../protocol/wire/admin/admin.ts'
import { servedLines } from '../../../protocol/wire/nodes/kinds-of-work.ts'
import { firstTokenText, lastFirstToken } from '../../frame/measured.ts'
import { fields, rounded, shortTime, table } from '../../frame/table.ts'
import type { Terminal } from '../../frame/terminal.ts'

const modelsOf = (node: Node) => node.runtimes.flatMap((runtime) => runtime.models)

/** Names the ready models and counts the others. */
function modelWords(node: Node): string {
  const all = modelsOf(node)
  const ready = all.filter((model) => model.ready).map(({ model }) => model)
  const named = ready.slice(0, 3).join(', ')
  const more = all.length - Math.min(3, ready.length)
  return more === 0 ? named : `${named === '' ? '' : `${named} `}+${more}`
}

/** A drained node without running work is `live`, like a node without a model, but it waits for `resume`. */
const stateWords = ({ state, admin_state: wish, usage_claims: claims, alarms = [] }: Node) =>
  [
    state,
    wish === 'draining' && state !== 'draining' ? 'drained' : '',
    claims.review ? 'review' : '',
    alarms.length > 0 ? 'alarm' : '',
  ]
    .filter((word) => word !== '')
    .join(', ')

/** Tokens a second of the node's fastest model, as one number for the node. */
function fastest(node: Node): number | null {
  const rates = modelsOf(node).flatMap((model) => (model.tokens_per_second === null ? [] : [model.tokens_per_second]))
  return rates.length === 0 ? null : Math.max(...rates)
}

/** The kinds of an agent's runtimes, each once. */
const kindWords = (node: Node) => [...new Set(node.runtimes.map((runtime) => runtime.runtime_kind))].join(', ')

/** With whose word it is. */
const payoutAddressOf = ({ payout_address: address, payout_address_by: by }: Node) =>
  address === null ? null : `${address}, ${by === 'node' ? 'signed by the node' : 'the operator’s word'}`

export function nodeTable(terminal: Terminal, nodes: readonly Node[], nowMs: number): string {
  return table(
    terminal,
    ['NODE', 'NAME', 'STATE', 'KIND', 'BY', 'VISIBILITY', 'IN FLIGHT', 'FIRST TOKEN', 'TOK/S', 'MODELS', 'LAST ERROR'],
    nodes.map((node) => [
      node.node_id,
      node.name,
      stateWords(node),
      kindWords(node),
      node.transport,
      node.visibility,
      node.in_flight,
      firstTokenText(lastFirstToken(modelsOf(node)), nowMs),
      rounded(fastest(node), 1),
      modelWords(node),
      node.last_error?.code,
    ]),
    'There are no nodes. Register a model server with: ./penstock nodes add URL',
  )
}

export function nodeDetails(terminal: Terminal, node: Node, nowMs: number): string {
  const { calls, at_bound: atBound } = node.usage_claims
  const facts = fields(terminal, [
    ['Node', node.node_id],
    ['Name', node.name],
    ['Address', node.url],
    ['Customer', node.customer_id],
    ['State', stateWords(node)],
    ['Why', node.state_says],
    ['Since', shortTime(node.state_since)],
    ['Held down until', shortTime(node.held_until)],
    ['Agent', node.kind === 'agent'],
    ['Reached by', node.transport],
    ['Identity', node.identity_fingerprint],
    ...hardwareWords(node.hardware),
    ['In flight', node.in_flight],
    ['Visibility', node.visibility],
    ['Privacy class', node.privacy_class],
    ['Node class', node.node_class],
    ['Rank', node.rank],
    ['Woken by', (node.macs ?? []).join(', ')],
    ['Wake hours', node.wake_hours],
    ['Takes to wake', node.wake_ms == null ? null : `${rounded(node.wake_ms / 1_000, 1)} s`],
    ['External', node.external],
    ['Declared work', servedLines(node.serves).join(' ')],
    ['Payout address', payoutAddressOf(node)],
    ['API key', node.has_api_key],
    ['Origin', node.origin],
    ['Claims at the bound', calls === 0 ? null : `${atBound} of the last ${calls} paid calls`],
    ...(node.alarms ?? []).map(({ code, subject, at }) => ['ALARM', `${code} ${subject} at ${shortTime(at)}`] as const),
    ['Last error', node.last_error === null ? null : `${node.last_error.code} at ${shortTime(node.last_error.at)}`],
  ])
  const runtimes = table(
    terminal,
    ['RUNTIME', 'KIND', 'STATE', 'SLOTS', 'FREE', 'WAITING', 'MODELS', 'RANKS WITH'],
    node.runtimes.map((runtime) => [
      runtime.runtime_id,
      runtime.runtime_kind,
      runtime.state,
      runtime.slots_total,
      runtime.slots_free,
      runtime.queue_depth,
      runtime.models.length,
      runtime.ranking_models.join(', '),
    ]),
    'The node has no runtimes yet.',
  )
  const models = table(
    terminal,
    [
      'MODEL',
      'ON THE NODE',
      'FOR',
      'READY',
      'IN MEMORY',
      'CONTEXT',
      'IN FLIGHT',
      'FIRST TOKEN',
      'TOK/S',
      'EJECTED UNTIL',
    ],
    modelsOf(node).map((model) => [
      model.model,
      model.upstream_model,
      model.serves.join(', '),
      model.ready,
      model.loaded,
      model.context_length,
      model.in_flight,
      firstTokenText(model.first_token, nowMs),
      rounded(model.tokens_per_second, 1),
      shortTime(model.ejected_until),
    ]),
    'The node has no models yet.',
  )
  return `${facts}\n${runtimes}\n${models}`
}
