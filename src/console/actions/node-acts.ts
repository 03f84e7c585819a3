import type { Node } from '../../protocol/wire/admin/admin.ts'
import type { EnrollmentTokenIssued } from '../../protocol/wire/nodes/enrollment.ts'
import type { ServedWork } from '../../protocol/wire/nodes/kinds-of-work.ts'
import type { NodeProbe } from '../../protocol/wire/nodes/probe.ts'
import { callAdmin, readAdmin } from '../state/api.ts'
import type { Act, ActField, Choice, Editing, Says, SeenRow, Send, Values } from './act.ts'
import { actOn } from './action-acts.ts'
import { mayDo } from './policy.ts'
import { kindsText, kindsTyped, servedText, withLine, workField } from './work-acts.ts'

export const nodePlace = (nodeId: string) => `/v1/admin/nodes/${nodeId}`

export const nodeLabels = {
  name: 'Name',
  url: 'Address',
  api_key: 'API key',
  visibility: 'Visibility',
  privacy_class: 'Privacy class',
  node_class: 'Class',
  rank: 'Rank',
  external: 'External',
  payout_address: 'Payout address',
} as const

const saysOf = (node: Node): Says => ({
  [nodeLabels.name]: node.name,
  [nodeLabels.url]: node.url ?? '',
  [nodeLabels.api_key]: node.has_api_key ? 'there' : '',
  [nodeLabels.visibility]: node.visibility,
  [nodeLabels.privacy_class]: node.privacy_class,
  [nodeLabels.node_class]: node.node_class,
  [nodeLabels.rank]: String(node.rank),
  [nodeLabels.external]: node.external ? 'yes' : 'no',
  'Kinds of work': servedText(node.serves),
  [nodeLabels.payout_address]: node.payout_address ?? '',
})
const seenIn = (node: Node): SeenRow<Node> => ({ etag: node.etag, says: saysOf(node), row: node })

type NodeModel = Node['runtimes'][number]['models'][number]

export const removeNode = (node: Node): Act => ({
  actions: ['node.delete'],
  verb: 'Remove',
  title: `Remove ${node.name}`,
  destroys: true,
  about: 'The node and its measurements are deleted. The server itself goes on as before.',
  confirm: node.name,
  editing: nodeEditing(node),
  run: (_, send) => send({ action: 'node.delete', method: 'DELETE', path: nodePlace(node.node_id) }),
  done: `${node.name} is removed.`,
})

export const defaults = { visibility: 'private', node_class: 'standard', privacy_class: 'private' } as const

export const nodeName: ActField = { name: 'name', label: 'Name', hint: 'optional: by default host and port' }
export const owner = (customers: readonly Choice[]): ActField =>
  customers.length > 0
    ? { name: 'customer_id', label: 'Owner', kind: 'choice', of: customers }
    : { name: 'customer_id', label: 'Owner', hint: 'the id of the customer to whom it belongs', required: true }

/** `box:8080` is what a person types. */
const withScheme = (url: string) => (/^[a-z][a-z0-9+.-]*:\/\//i.test(url) ? url : `http://${url}`)
const keyOf = ({ api_key: key = '' }: Values) => (key === '' ? {} : { api_key: key })

async function look(values: Values, signal: AbortSignal) {
  const body = { url: withScheme((values.url ?? '').trim()), ...keyOf(values) }
  const answer = await callAdmin('/v1/admin/nodes/probe', { method: 'POST', body, signal })
  const { code, says, node_id } = (await answer.json()) as NodeProbe
  if (node_id !== null) return { good: false, says: `${says} It is a node already.` }
  return { good: code === null, says }
}

export const addNode = (customers: readonly Choice[]): Act => ({
  actions: ['node.register', 'node.probe'],
  verb: 'Add',
  title: 'Add a node',
  about:
    'A model server that the gateway can reach: llama.cpp, vLLM, SGLang, Ollama, LM Studio, or any that speaks OpenAI.',
  fields: [
    { name: 'url', label: 'URL', hint: 'http://host:port', required: true },
    nodeName,
    { name: 'api_key', label: 'API key', hint: 'only where the server asks for one', kind: 'secret' },
    workField(),
    owner(customers),
  ],
  check: (values, signal) => ((values.url ?? '').trim() === '' ? null : look(values, signal)),
  run: (values, send) => {
    const { url = '', name = '', customer_id } = values
    const work = kindsTyped(values.serves)
    const serves = work === null ? {} : { serves: { '*': work } }
    const body = { ...defaults, ...keyOf(values), ...serves, customer_id, url: withScheme(url.trim()) }
    const named = name.trim() === '' ? body : { ...body, name: name.trim() }
    return send({ action: 'node.register', method: 'POST', path: '/v1/admin/nodes', body: named })
  },
  done: 'The node is added.',
  undo: (node: Node) => (mayDo('node.delete') ? removeNode(node) : actOn('node.drain', node)),
})

export const nodeEditing = (node: Node): Editing => ({
  seen: seenIn(node),
  read: async () => seenIn(await readAdmin<Node>(nodePlace(node.node_id))),
})
const sendWork = (node: Node, serves: ServedWork | null, send: Send) =>
  send({ action: 'node.update', method: 'PATCH', path: nodePlace(node.node_id), body: { serves } })

/** For a model server without an agent, which declares its models' work itself. */
export const declareWork = (node: Node, { upstream_model: model }: NodeModel): Act => ({
  actions: ['node.update'],
  verb: 'Declare work',
  title: `What ${model} does on ${node.name}`,
  about:
    'Requests are placed by it. Where nothing is declared, the gateway goes by what the server says, then by what it has answered, then by the name of the model.',
  fields: [workField(kindsText(node.serves?.[model]))],
  editing: nodeEditing(node),
  run: ({ serves }, send) => sendWork(node, withLine(node, model, kindsTyped(serves)), send),
  done: `The work of ${model} on ${node.name} is declared.`,
  undo: (after: Node) => ({
    actions: ['node.update'],
    verb: 'Put back',
    title: `Put back what ${model} does on ${node.name}`,
    about: 'What was declared before is declared again.',
    editing: nodeEditing(after),
    run: (_, send) => sendWork(after, node.serves, send),
    done: `${node.name} declares what it did.`,
  }),
})

export const enrolNode = (customers: readonly Choice[]): Act => ({
  actions: ['node.enroll'],
  verb: 'Make the line',
  title: 'Enrol a computer',
  about: 'A computer that the gateway cannot reach, for example behind a router, dials out. You paste one line there.',
  fields: [{ ...nodeName, hint: 'as lists show it', required: true }, owner(customers)],
  run: ({ name = '', customer_id }, send) => {
    const body = { ...defaults, name: name.trim(), customer_id }
    return send({ action: 'node.enroll', method: 'POST', path: '/v1/admin/enrollment-tokens', body })
  },
  shows: ({ line, enrollment_token }: EnrollmentTokenIssued) => [
    line === null
      ? { label: 'Enrolment token', text: enrollment_token }
      : { label: 'Line to paste, within 15 minutes', text: line },
  ],
  done: 'The line is made.',
  undo: (issued: EnrollmentTokenIssued) => actOn('node.enroll.withdraw', issued),
})
