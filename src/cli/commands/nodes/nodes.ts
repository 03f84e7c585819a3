import type { Node } from '../../../protocol/wire/admin/admin.ts'
import { workForm } from '../../../protocol/wire/nodes/kinds-of-work.ts'
import type { NodeProbe } from '../../../protocol/wire/nodes/probe.ts'
import { troubleOf } from '../../../protocol/wire/nodes/trouble.ts'
import { secondMs } from '../../../time.ts'
import { action, type OptionSpecs, type OptionValues, type Verb } from '../../frame/action.ts'
import { customerOption, reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { CliFailure, exitCodes, UsageFault } from '../../frame/failure.ts'
import type { GatewayClient } from '../../frame/gateway-client.ts'
import { givenText, givenTextForm } from '../../frame/given-text.ts'
import { servesGiven } from '../../frame/given-work.ts'
import { nodeIdOf as idOf, oneNode, nodesPath as path } from '../../frame/node-id.ts'
import type { Session } from '../../frame/session.ts'
import { dataDirOption } from './node-keys.ts'
import { discover } from './nodes-discover.ts'
import { enroll } from './nodes-enroll.ts'
import { join } from './nodes-join.ts'
import { nodeDetails } from './nodes-view.ts'
import { serversHere } from './servers-here.ts'

const idOperand = { name: 'NODE', about: 'The node’s name or its id (node_…), as `nodes list` shows them' } as const
/** How long the command waits for the first answer of a new node, which most nodes give much earlier. */
const firstAnswerWaitMs = 5 * secondMs
const lookEveryMs = 250

const nodeOptions = {
  name: { kind: 'text', value: 'NAME', about: 'The name that lists show (default: host and port)' },
  visibility: {
    kind: 'choice',
    of: ['private', 'public'],
    about: 'Who may use the node (default private: only its owner)',
  },
  'node-class': { kind: 'text', value: 'CLASS', about: 'A route tier that policies can name (default standard)' },
  'privacy-class': {
    kind: 'choice',
    of: ['public', 'trusted', 'private'],
    about: 'How far other customers may trust the node with prompts (default private)',
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
  serves: {
    kind: 'texts',
    value: 'KIND,…',
    about: `What its models do, where its server does not say it: ${workForm}. \`none\` leaves it to the server. Can be repeated`,
  },
  'payout-address': { kind: 'text', value: '0x…', about: 'The address that is paid for its work; `none` removes it' },
  'api-key': { kind: 'text', value: 'KEY', about: `The API key that the node expects; ${givenTextForm}` },
} as const satisfies OptionSpecs

/** How and when a node without an agent is woken; an agent says its card itself. */
const wakeOptions = {
  mac: {
    kind: 'text',
    value: 'ADDRESS',
    about: 'The hardware address of its network card, where magic packets wake it; `none` removes it',
  },
  'secure-on': {
    kind: 'text',
    value: 'PASSWORD',
    about: `The SecureOn password of that card, six bytes like an address; ${givenTextForm}`,
  },
  'wake-hours': {
    kind: 'text',
    value: 'HOURS',
    about: 'When requests may wake it, e.g. "07:00-23:00 Europe/Berlin"; `always` removes the bound',
  },
} as const satisfies OptionSpecs

async function wakeFields(session: Session, options: OptionValues<typeof wakeOptions>) {
  const { mac, 'secure-on': password, 'wake-hours': hours } = options
  return {
    ...(mac === undefined ? {} : { mac: mac === 'none' ? null : mac }),
    ...(password === undefined
      ? {}
      : { secure_on: password === 'none' ? null : await givenText(session, 'secure-on', password) }),
    ...(hours === undefined ? {} : { wake_hours: hours === 'always' ? null : hours }),
  }
}

async function nodeFields(session: Session, options: OptionValues<typeof nodeOptions>) {
  const key = options['api-key']
  const payee = options['payout-address']
  const serves = servesGiven(options.serves)
  return {
    ...(options.name === undefined ? {} : { name: options.name }),
    ...(options.visibility === undefined ? {} : { visibility: options.visibility }),
    ...(options['node-class'] === undefined ? {} : { node_class: options['node-class'] }),
    ...(options['privacy-class'] === undefined ? {} : { privacy_class: options['privacy-class'] }),
    ...(options.rank === undefined ? {} : { rank: options.rank }),
    ...(options.external === undefined ? {} : { external: options.external === 'yes' }),
    ...(serves === undefined ? {} : { serves }),
    ...(payee === undefined ? {} : { payout_address: payee === 'none' ? null : payee }),
    ...(key === undefined ? {} : { api_key: key === 'none' ? null : await givenText(session, 'api-key', key) }),
  }
}

/** `box:8080` is what a person types. */
const withScheme = (url: string | undefined) =>
  url === undefined || /^[a-z][a-z0-9+.-]*:\/\//i.test(url) ? url : `http://${url}`

/** Returns the node after its first answer, or as it is if that takes too long. */
async function afterFirstAnswer(gateway: GatewayClient, node: Node): Promise<Node> {
  let now = node
  for (const deadline = performance.now() + firstAnswerWaitMs; performance.now() < deadline; ) {
    if (now.state !== 'enrolled' || now.last_error !== null) break
    await Bun.sleep(lookEveryMs)
    now = await gateway.admin<Node>({ path: oneNode(node.node_id) })
  }
  return now
}

/** Registers nothing. Throws what is wrong, in a sentence. */
async function lookFirst(gateway: GatewayClient, asked: object): Promise<void> {
  const found = await gateway.admin<NodeProbe>({ method: 'POST', path: `${path}/probe`, body: asked })
  if (found.code === null) return
  const notes = [
    'Nothing was registered.',
    ...(found.code === 'unauthorized' ? ['Give the key with --api-key @FILE.'] : []),
    'To register a server that is not up yet: --anyway',
  ]
  throw new CliFailure(found.says, notes, exitCodes.unanswered)
}

const add = action({
  about: 'Register a model server by its URL: llama.cpp, vLLM, SGLang, Ollama, LM Studio or any that speaks OpenAI',
  operands: [{ name: 'URL', about: 'The URL of the model server, http://host:port, with or without /v1' }],
  options: {
    ...customerOption,
    ...nodeOptions,
    anyway: { kind: 'flag', about: 'Register it also where no model server answers yet' },
    ...reasonOption,
  },
  run: async ({ operands, options, json }, session) => {
    const gateway = session.gateway()
    const url = withScheme(operands[0])
    const fields = await nodeFields(session, options)
    const customer = session.customer(options.customer)
    if (!options.anyway)
      await lookFirst(gateway, { url, ...(fields.api_key == null ? {} : { api_key: fields.api_key }) })
    const made = await gateway.admin<Node>({
      method: 'POST',
      path,
      body: {
        visibility: 'private',
        node_class: 'standard',
        privacy_class: 'private',
        customer_id: customer,
        url,
        ...fields,
        ...reasonBody(options.reason),
      },
    })
    const node = await afterFirstAnswer(gateway, made)
    const trouble = troubleOf(node)
    session.show(json, node, (shown) => nodeDetails(session.terminal, shown, Date.now()))
    if (trouble === null) return undefined
    throw new CliFailure(
      trouble,
      [
        'The node is registered and will be used once it answers.',
        `Take it back: ./penstock nodes remove ${node.node_id}`,
      ],
      exitCodes.unanswered,
    )
  },
})

const show = action({
  about: 'Show a node with its models and measurements; on its own computer also why a model server failed',
  operands: [idOperand],
  options: dataDirOption,
  run: async ({ operands, options, json }, session) => {
    const gateway = session.gateway()
    const node = await gateway.admin<Node>({ path: oneNode(await idOf(gateway, operands[0])) })
    const here = await serversHere(session, node.node_id, options['data-dir'])
    session.show(json, node, (body) => nodeDetails(session.terminal, body, Date.now()) + here)
    return undefined
  },
})

const set = action({
  about: 'Change a node. `--api-key none` removes its key',
  operands: [idOperand],
  options: {
    url: {
      kind: 'text',
      value: 'URL',
      about:
        'The new URL. The stored API key is not sent there; give one with --api-key. Running requests may finish at the old URL.',
    },
    ...nodeOptions,
    ...wakeOptions,
    ...reasonOption,
  },
  run: async ({ operands, options, json }, session) => {
    const changes = {
      ...(options.url === undefined ? {} : { url: withScheme(options.url) }),
      ...(await nodeFields(session, options)),
      ...(await wakeFields(session, options)),
    }
    if (Object.keys(changes).length === 0) throw new UsageFault('There is nothing to change. Give at least one option.')
    const body = { ...changes, ...reasonBody(options.reason) }
    const gateway = session.gateway()
    const place = oneNode(await idOf(gateway, operands[0]))
    const { etag: seen } = await gateway.admin<Node>({ path: place })
    const node = await gateway.admin<Node>({ method: 'PATCH', path: place, body, seen })
    session.show(json, node, (changed) => nodeDetails(session.terminal, changed, Date.now()))
    return undefined
  },
})

export const nodes: Verb = {
  name: 'nodes',
  about: 'Manage the nodes of the gateway: model servers and agents',
  actions: {
    add,
    discover,
    enroll,
    join,
    show,
    set,
  },
}
