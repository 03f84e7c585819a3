import { isLoopback } from '../../../host/loopback.ts'
import type { RunningNode } from '../../../node/main.ts'
import type { NodeOptions } from '../../../node/node-options.ts'
import { action, type OptionSpecs, type OptionValues, type Verb } from '../../frame/action.ts'
import { CliFailure, exitCodes, UsageFault } from '../../frame/failure.ts'
import { listenAddress } from '../../frame/listen-address.ts'
import type { Session } from '../../frame/session.ts'
import { printable, type Terminal } from '../../frame/terminal.ts'
import { untilSignal } from '../../frame/until-signal.ts'
import { joiningOf } from './node-join.ts'
import { dataDirOption, nodeKeys } from './node-keys.ts'
import { nodePayee } from './node-payee.ts'
import { powerGiven, powerOptions } from './node-power.ts'
import { pullOptions, pullsGiven } from './node-pulls.ts'
import { nodeStatus } from './node-status.ts'

/** Errors whose text is for the operator. Of any other error only the name is shown. */
const told: readonly string[] = ['NodeStartError', 'PrivateFileError']

const options = {
  gateway: {
    kind: 'text',
    value: 'BASE_URL',
    about:
      'The gateway to join, only needed once. Without --token both sides show six words that you compare. Without a gateway the agent asks the local network for one, else it serves this computer alone.',
  },
  token: { kind: 'text', value: 'TOKEN', about: 'An enrolment token of that gateway, which works once' },
  ...dataDirOption,
  listen: {
    kind: 'text',
    value: 'HOST:PORT',
    about: 'Where programs on this computer reach the agent (default 127.0.0.1:7071)',
  },
  runtime: { kind: 'texts', value: 'URL', about: 'The URL of a model server, e.g. http://127.0.0.1:8000' },
  rerank: {
    kind: 'texts',
    value: 'URL[=logit|probability]',
    about: 'A model server that reranks documents but does not say so, and the meaning of its scores',
  },
  'runtime-key': {
    kind: 'texts',
    value: 'URL=VARIABLE',
    about: 'A model server that needs an API key, and the environment variable with that key',
  },
  'no-discover': {
    kind: 'flag',
    about: 'Do not look for model servers on this computer, nor for a gateway on the local network',
  },
  visibility: {
    kind: 'choice',
    of: ['private', 'public'],
    about: 'At the enrolment: ask for less than the token allows',
  },
  'endpoint-url': {
    kind: 'text',
    value: 'URL',
    about: 'At the enrolment: the address where the gateway can call the agent (default: through its tunnel)',
  },
  'payout-address': { kind: 'text', value: '0x…', about: 'At the enrolment: the address that is paid for its work' },
  'log-key': {
    kind: 'texts',
    value: 'NAME+HASH+BASE64',
    about:
      'The key of a public log that this node is to witness, beside the one that its gateway gave at the enrolment',
  },
  'keep-receipts': {
    kind: 'number',
    value: 'DAYS',
    about: 'How long to keep the hashes of the receipts that this node has signed (default 90)',
    min: 1,
    max: 3_650,
  },
  attest: {
    kind: 'text',
    value: 'FOLDER',
    about:
      'On a confidential computer: show clients what runs on it, by configfs-tsm (usually /sys/kernel/config/tsm/report)',
  },
  'attest-collateral': {
    kind: 'text',
    value: 'FILE',
    about: 'With --attest: what Intel or AMD have signed of this hardware, as JSON. It is read anew for each client',
  },
  'attest-gpu': {
    kind: 'text',
    value: 'PROGRAM',
    about: 'With --attest: a program that prints the evidence of the GPUs for the nonce that is its argument',
  },
  ...powerOptions,
  ...pullOptions,
  insecure: { kind: 'flag', about: 'Allow a gateway without TLS on another computer' },
} as const satisfies OptionSpecs
type NodeInput = OptionValues<typeof options>

/** Reads `http://127.0.0.1:8081=logit`. Without the word the kind of server decides. */
function readRanker(text: string): NonNullable<NodeOptions['rankers']>[number] {
  const [, url = '', scoreKind] = /^(.+?)(?:=(logit|probability))?$/.exec(text) ?? []
  return { url, scoreKind: scoreKind === 'logit' || scoreKind === 'probability' ? scoreKind : null }
}

/**
 * Reads `http://127.0.0.1:8000=VLLM_API_KEY`. A key on the command line could be read by every user of the computer.
 */
function readRuntimeKey(text: string, env: Session['env']): NonNullable<NodeOptions['runtimeKeys']>[number] {
  const [, url = '', variable = ''] = /^(.+)=([A-Za-z_][A-Za-z0-9_]*)$/.exec(text) ?? []
  if (url === '') throw new UsageFault('--runtime-key must be URL=VARIABLE, like http://127.0.0.1:8000=VLLM_API_KEY')
  const apiKey = env[variable] ?? ''
  if (!/^[\x21-\x7e]+$/.test(apiKey)) throw new UsageFault(`--runtime-key: ${variable} is not set, or is not a key`)
  return { url, apiKey }
}

/** What this machine shows of itself; undefined: nothing was asked for. */
function attestOf(given: NodeInput): NodeOptions['attest'] {
  const { attest: folder, 'attest-collateral': collateral, 'attest-gpu': gpuCommand } = given
  if (folder !== undefined) {
    return {
      folder,
      ...(collateral === undefined ? {} : { collateral }),
      ...(gpuCommand === undefined ? {} : { gpuCommand }),
    }
  }
  if (collateral === undefined && gpuCommand === undefined) return undefined
  throw new UsageFault('--attest-collateral and --attest-gpu need --attest FOLDER')
}

/** Only a token says what the agent may ask for. */
function checkWishes({ gateway, token, visibility, 'endpoint-url': endpoint }: NodeInput): void {
  if (gateway === undefined || token !== undefined || (visibility === undefined && endpoint === undefined)) return
  throw new UsageFault('--visibility and --endpoint-url need --token: without one the operator alone decides')
}

async function start(given: NodeInput, session: Session, json: boolean, signal: AbortSignal): Promise<RunningNode> {
  const attest = attestOf(given)
  const address = listenAddress(given.listen ?? '127.0.0.1:7071')
  const [{ startNode, nodeFolderPath }, { createLog }] = await Promise.all([
    import('../../../node/main.ts'),
    import('../../../log.ts'),
  ])
  if (!isLoopback(address.hostname)) {
    session.terminal.err('Other computers can reach this port, and the connection is not encrypted.\n')
  }
  const dataDir = given['data-dir'] ?? nodeFolderPath(session.env)
  const { gateway, token, insecure } = given
  const joining = await joiningOf(
    { gateway, token, insecure, dataDir, discover: !given['no-discover'], json },
    session,
    signal,
  )
  return startNode({
    ...address,
    ...joining,
    dataDir,
    runtimes: given.runtime,
    rankers: given.rerank.map(readRanker),
    runtimeKeys: given['runtime-key'].map((text) => readRuntimeKey(text, session.env)),
    discover: !given['no-discover'],
    logKeys: given['log-key'],
    log: createLog('info', (text) => process.stderr.write(text)),
    ...(attest === undefined ? {} : { attest }),
    power: powerGiven(given, session.env),
    ...(await pullsGiven(given, dataDir, session.env)),
    ...(given['keep-receipts'] === undefined ? {} : { receiptDays: given['keep-receipts'] }),
    ...(given.token === undefined ? {} : { token: given.token }),
    ...(given.visibility === undefined ? {} : { visibility: given.visibility }),
    ...(given['endpoint-url'] === undefined ? {} : { endpointUrl: given['endpoint-url'] }),
    ...(given['payout-address'] === undefined ? {} : { payoutAddress: given['payout-address'] }),
  })
}

function introduction(terminal: Terminal, running: RunningNode, tokenFile: string): string {
  const models = modelsOf(running)
  const { nodeId } = running
  const name =
    nodeId === null
      ? 'This node works for this computer alone. To add it to a gateway, start it with --gateway, or run the command that `nodes enroll` prints.'
      : `This node is ${terminal.style('bold', nodeId)}`
  return `${name}

  Identity   ${running.fingerprint}
  Witness    ${running.witnessKey}
  Local API  ${running.url}
  Keys       ${running.folder}
  Token      in ${tokenFile} there, for programs of yours
  Models     ${models.length === 0 ? 'none yet' : models.join(', ')}
${whyNone(running)
  .map((line) => `             ${line}\n`)
  .join('')}
Ctrl-C ends it.
`
}

/** Model servers, also those of `models.json` that are not in memory; the built-in ranking is always there and makes no node useful. */
const serversOf = ({ runtimes }: RunningNode) => runtimes.list().filter(({ builtIn }) => !builtIn)

const modelsOf = (running: RunningNode) => serversOf(running).flatMap(({ models }) => models.map(({ id }) => id))

/** What keeps the agent from serving models, server by server. */
function whyNone(running: RunningNode): readonly string[] {
  const servers = serversOf(running)
  if (servers.length === 0) {
    return ['No model server was found on the usual ports of this computer. Start one, or name it: --runtime URL']
  }
  return servers.flatMap(({ trouble }) => (trouble === null ? [] : [printable(trouble)]))
}

/** The command without a subcommand, which the bundled agent also runs. */
const runNode = action({
  about: 'Run the node agent beside the model servers of this computer, for a gateway or for this computer alone',
  options,
  run: async ({ options: given, json }, session) => {
    checkWishes(given)
    const ended = untilSignal()
    const leaving = new AbortController()
    void ended.then(() => leaving.abort())
    const running = await start(given, session, json, leaving.signal).catch((error: unknown) => {
      if (error instanceof UsageFault) throw error
      if (error instanceof Error && told.includes(error.name)) throw new CliFailure(error.message)
      throw new CliFailure(`The agent could not start (${error instanceof Error ? error.name : typeof error}).`)
    })
    const { localTokenFile } = await import('../../../node/access/local-keys.ts')
    const { nodeId, fingerprint, witnessKey, url, folder } = running
    if (running.enrolledBefore && given.token !== undefined) {
      session.terminal.err(
        `${folder} is already enrolled, so the token was not used. A revoked node needs another --data-dir to enrol again.\n`,
      )
    }
    if (json)
      session.terminal.out(
        `${JSON.stringify({ node_id: nodeId, fingerprint, witness_key: witnessKey, url, data_dir: folder })}\n`,
      )
    else session.terminal.out(introduction(session.terminal, running, localTokenFile))
    const revoked = await Promise.race([ended.then(() => false), running.revoked.then(() => true)])
    if (revoked) {
      session.terminal.err(
        `An operator has revoked or removed this node, so the agent ends. To join again: a new line of \`nodes enroll\`, with a new --data-dir.\n`,
      )
    }
    await running.stop()
    // Everything is written and closed, and a timer that is left must not delay the exit.
    process.exit(exitCodes.ok)
  },
})

export const node: Verb = {
  name: 'node',
  about: 'Run the node agent, so that this computer becomes a node of a gateway',
  actions: { '': runNode, status: nodeStatus, payee: nodePayee, ...nodeKeys },
}
