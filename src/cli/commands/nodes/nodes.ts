import type { Static } from '@sinclair/typebox'
import type { Node, NodeList } from '../../../protocol/wire/admin/admin.ts'
import { secondMs } from '../../../time.ts'
import { action, type OptionSpecs, type OptionValues, type Verb } from '../../frame/action.ts'
import { customerOption, reasonBody, reasonOption, yesOption } from '../../frame/admin-options.ts'
import { UsageFault } from '../../frame/failure.ts'
import { type GatewayClient, segment } from '../../frame/gateway-client.ts'
import { givenText, givenTextForm } from '../../frame/given-text.ts'
import type { Session } from '../../frame/session.ts'
import { enroll, tokens, withdraw } from './nodes-enroll.ts'
import { nodeDetails, nodeTable } from './nodes-view.ts'

const path = '/v1/admin/nodes'
const idOperand = { name: 'NODE_ID', about: 'node_…, as in nodes list' } as const
/** A new node is polled at once: most have answered long before. */
const firstAnswerWaitMs = 5 * secondMs
const lookEveryMs = 250

const nodeOptions = {
  name: { kind: 'text', value: 'NAME', about: 'What it is called in lists (default: host and port)' },
  visibility: { kind: 'choice', of: ['private', 'public'], about: 'Who may use it (default private: its owner)' },
  'node-class': { kind: 'text', value: 'CLASS', about: 'A route tier that policies can name (default standard)' },
  'privacy-class': {
    kind: 'choice',
    of: ['public', 'trusted', 'private'],
    about: 'How far others may trust it with prompts (default private)',
  },
  rank: {
    kind: 'number',
    value: '0-9',
    min: 0,
    max: 9,
    about: 'Used only when no node of a lower rank can serve in time (default 0)',
  },
  external: {
    kind: 'choice',
    of: ['yes', 'no'],
    about: 'A hosted provider: only for accounts and keys with --allow-external (default no)',
  },
  'payout-address': { kind: 'text', value: '0x…', about: 'Where its owner is paid; `none` takes it away' },
  'api-key': { kind: 'text', value: 'KEY', about: `Sent to the node as bearer; ${givenTextForm}` },
} as const satisfies OptionSpecs

async function nodeFields(session: Session, options: OptionValues<typeof nodeOptions>) {
  const key = options['api-key']
  const payee = options['payout-address']
  return {
    ...(options.name === undefined ? {} : { name: options.name }),
    ...(options.visibility === undefined ? {} : { visibility: options.visibility }),
    ...(options['node-class'] === undefined ? {} : { node_class: options['node-class'] }),
    ...(options['privacy-class'] === undefined ? {} : { privacy_class: options['privacy-class'] }),
    ...(options.rank === undefined ? {} : { rank: options.rank }),
    ...(options.external === undefined ? {} : { external: options.external === 'yes' }),
    ...(payee === undefined ? {} : { payout_address: payee === 'none' ? null : payee }),
    ...(key === undefined ? {} : { api_key: key === 'none' ? null : await givenText(session, 'api-key', key) }),
  }
}

const oneNode = (id: string | undefined) => `${path}/${segment(id ?? '')}`

/** The node once it has answered, or as it is when that takes too long. */
async function afterFirstAnswer(gateway: GatewayClient, node: Node): Promise<Node> {
  let now = node
  for (const deadline = performance.now() + firstAnswerWaitMs; performance.now() < deadline; ) {
    if (now.state !== 'enrolled' || now.last_error !== null) break
    await Bun.sleep(lookEveryMs)
    now = await gateway.admin<Node>({ path: oneNode(node.node_id) })
  }
  return now
}

const add = action({
  about: 'Register a model server by its URL: llama.cpp, vLLM, SGLang, Ollama, LM Studio or any that speaks OpenAI',
  operands: [{ name: 'URL', about: 'http://host:port, with or without /v1' }],
  options: { ...customerOption, ...nodeOptions, ...reasonOption },
  run: async ({ operands, options, json }, session) => {
    const gateway = session.gateway()
    const made = await gateway.admin<Node>({
      method: 'POST',
      path,
      body: {
        visibility: 'private',
        node_class: 'standard',
        privacy_class: 'private',
        customer_id: session.customer(options.customer),
        url: operands[0],
        ...(await nodeFields(session, options)),
        ...reasonBody(options.reason),
      },
    })
    session.show(json, await afterFirstAnswer(gateway, made), (node) => nodeDetails(session.terminal, node))
    return undefined
  },
})

const list = action({
  about: 'List nodes with their state, load and models',
  options: {},
  run: async ({ json }, session) => {
    const answer = await session.gateway().admin<Static<typeof NodeList>>({ path: `${path}?limit=1000` })
    session.show(json, answer, ({ nodes }) => nodeTable(session.terminal, nodes))
    return undefined
  },
})

const show = action({
  about: 'Show a node, its models and what was measured',
  operands: [idOperand],
  options: {},
  run: async ({ operands, json }, session) => {
    const node = await session.gateway().admin<Node>({ path: oneNode(operands[0]) })
    session.show(json, node, (body) => nodeDetails(session.terminal, body))
    return undefined
  },
})

const set = action({
  about: 'Change a node; `--api-key none` takes its key away',
  operands: [idOperand],
  options: {
    url: {
      kind: 'text',
      value: 'URL',
      about:
        'New address; the API key is not sent there unless --api-key gives one; what runs at the old address may end',
    },
    ...nodeOptions,
    ...reasonOption,
  },
  run: async ({ operands, options, json }, session) => {
    const changes = {
      ...(options.url === undefined ? {} : { url: options.url }),
      ...(await nodeFields(session, options)),
    }
    if (Object.keys(changes).length === 0) throw new UsageFault('Nothing to change: give at least one option')
    const body = { ...changes, ...reasonBody(options.reason) }
    const node = await session.gateway().admin<Node>({ method: 'PATCH', path: oneNode(operands[0]), body })
    session.show(json, node, (changed) => nodeDetails(session.terminal, changed))
    return undefined
  },
})

/** `question`: asked first, with the node's id in front of it. */
function command(name: 'drain' | 'resume' | 'revoke', about: string, question: string | null) {
  return action({
    about,
    operands: [idOperand],
    options: { ...reasonOption, ...yesOption },
    run: async ({ operands, options, json }, session) => {
      const asks = question !== null && !(await session.agreed(options.yes, `${operands[0]}: ${question}`))
      if (asks) return 1
      const node = await session.gateway().admin<Node>({
        method: 'POST',
        path: `${oneNode(operands[0])}/${name}`,
        body: reasonBody(options.reason),
      })
      session.show(json, node, (body) => nodeTable(session.terminal, [body]))
      return undefined
    },
  })
}

const remove = action({
  about: 'Delete a node and what was measured of it',
  operands: [idOperand],
  options: { ...reasonOption, ...yesOption },
  run: async ({ operands, options, json }, session) => {
    const id = operands[0] ?? ''
    if (!(await session.agreed(options.yes, `Delete ${id}? What it does now is cut off.`))) return 1
    await session.gateway().admin<null>({ method: 'DELETE', path: oneNode(id), reason: options.reason })
    session.show(json, { node_id: id, removed: true }, () => `Removed ${id}.\n`)
    return undefined
  },
})

export const nodes: Verb = {
  name: 'nodes',
  about: 'Machines: model servers and agents behind the gateway',
  actions: {
    add,
    enroll,
    tokens,
    withdraw,
    list,
    show,
    set,
    drain: command('drain', 'Give it no new work; what runs may finish', null),
    resume: command('resume', 'Let it work again', null),
    revoke: command('revoke', 'Never use it again', 'revoke for good? It cannot be taken back.'),
    remove,
  },
}
