import { isLoopback } from '../../../host/loopback.ts'
import type { NodeOptions, RunningNode } from '../../../node/main.ts'
import { action, type OptionSpecs, type OptionValues, type Verb } from '../../frame/action.ts'
import { CliFailure, exitCodes, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import type { Terminal } from '../../frame/terminal.ts'
import { untilSignal } from '../../frame/until-signal.ts'
import { listenAddress } from '../gateway/fake-node.ts'
import { dataDirOption, nodeKeys } from './node-keys.ts'

/** Faults of the set-up whose text is written for the operator; of anything else only the name is told. */
const told: readonly string[] = ['NodeStartError', 'PrivateFileError']

const options = {
  gateway: {
    kind: 'text',
    value: 'BASE_URL',
    about: 'The gateway to enrol at, once; without one it serves this machine',
  },
  token: { kind: 'text', value: 'TOKEN', about: 'An enrolment token of that gateway, good once' },
  ...dataDirOption,
  listen: { kind: 'text', value: 'HOST:PORT', about: 'For programs on this machine (default 127.0.0.1:7071)' },
  runtime: { kind: 'texts', value: 'URL', about: 'A model server beside it, e.g. http://127.0.0.1:8000' },
  rerank: {
    kind: 'texts',
    value: 'URL[=logit|probability]',
    about: 'A model server that ranks, where it does not say so itself, and how its scores are meant',
  },
  'runtime-key': {
    kind: 'texts',
    value: 'URL=VARIABLE',
    about: 'A model server that asks for an API key, and the environment variable that holds it',
  },
  'no-discover': { kind: 'flag', about: 'Do not look for model servers on this machine' },
  visibility: { kind: 'choice', of: ['private', 'public'], about: 'When it enrols: less than the token allows' },
  'endpoint-url': {
    kind: 'text',
    value: 'URL',
    about: 'When it enrols: where the gateway can call it directly (default: through its tunnel)',
  },
  'payout-address': { kind: 'text', value: '0x…', about: 'When it enrols: who is paid for its work' },
  insecure: { kind: 'flag', about: 'Allow a gateway without TLS that is not on this machine' },
} as const satisfies OptionSpecs
type NodeInput = OptionValues<typeof options>

/** `http://127.0.0.1:8081=logit`; without the word the kind of server says it. */
function readRanker(text: string): NonNullable<NodeOptions['rankers']>[number] {
  const [, url = '', scoreKind] = /^(.+?)(?:=(logit|probability))?$/.exec(text) ?? []
  return { url, scoreKind: scoreKind === 'logit' || scoreKind === 'probability' ? scoreKind : null }
}

/** `http://127.0.0.1:8000=VLLM_API_KEY`: on the command line itself every user of the machine could read the key. */
function readRuntimeKey(text: string, env: Session['env']): NonNullable<NodeOptions['runtimeKeys']>[number] {
  const [, url = '', variable = ''] = /^(.+)=([A-Za-z_][A-Za-z0-9_]*)$/.exec(text) ?? []
  if (url === '') throw new UsageFault('--runtime-key must be URL=VARIABLE, as http://127.0.0.1:8000=VLLM_API_KEY')
  const apiKey = env[variable] ?? ''
  if (!/^[\x21-\x7e]+$/.test(apiKey)) throw new UsageFault(`--runtime-key: ${variable} is not set, or holds no key`)
  return { url, apiKey }
}

async function start(given: NodeInput, session: Session): Promise<RunningNode> {
  const address = listenAddress(given.listen ?? '127.0.0.1:7071')
  const [{ startNode, nodeFolderPath }, { createLog }] = await Promise.all([
    import('../../../node/main.ts'),
    import('../../../log.ts'),
  ])
  if (!isLoopback(address.hostname)) {
    session.terminal.err('Others can reach this port, and what they send to it is not encrypted.\n')
  }
  return startNode({
    ...address,
    dataDir: given['data-dir'] ?? nodeFolderPath(session.env),
    runtimes: given.runtime,
    rankers: given.rerank.map(readRanker),
    runtimeKeys: given['runtime-key'].map((text) => readRuntimeKey(text, session.env)),
    discover: !given['no-discover'],
    insecure: given.insecure,
    log: createLog('info', (text) => process.stderr.write(text)),
    ...(given.gateway === undefined ? {} : { gatewayUrl: given.gateway }),
    ...(given.token === undefined ? {} : { token: given.token }),
    ...(given.visibility === undefined ? {} : { visibility: given.visibility }),
    ...(given['endpoint-url'] === undefined ? {} : { endpointUrl: given['endpoint-url'] }),
    ...(given['payout-address'] === undefined ? {} : { payoutAddress: given['payout-address'] }),
  })
}

function introduction(terminal: Terminal, running: RunningNode, tokenFile: string): string {
  const models = running.runtimes.list().flatMap((runtime) => runtime.models.map(({ id }) => id))
  const { nodeId } = running
  const name =
    nodeId === null
      ? 'This machine serves itself: it belongs to no gateway. To enrol it, paste the line of `nodes enroll`.'
      : `This machine is ${terminal.style('bold', nodeId)}`
  return `${name}

  Identity   ${running.fingerprint}
  Local API  ${running.url}
  Keys       ${running.folder}
  Token      in ${tokenFile} there, for programs of yours
  Models     ${models.length === 0 ? 'none yet' : models.join(', ')}

Ctrl-C ends it.
`
}

/** Of the verb by itself; also what the bundled agent runs. */
export const runNode = action({
  about: 'Run the node agent beside the model servers of this computer, for its gateway or for this computer alone',
  options,
  run: async ({ options: given, json }, session) => {
    const ended = untilSignal()
    const running = await start(given, session).catch((error: unknown) => {
      if (error instanceof UsageFault) throw error
      if (error instanceof Error && told.includes(error.name)) throw new CliFailure(error.message)
      throw new CliFailure(`The agent could not start (${error instanceof Error ? error.name : typeof error}).`)
    })
    const { localTokenFile } = await import('../../../node/access/local-keys.ts')
    const { nodeId, fingerprint, url, folder } = running
    if (running.enrolledBefore && given.token !== undefined) {
      session.terminal.err(
        `${folder} was enrolled before, so the token was not used. A machine that was revoked enrols anew with another --data-dir.\n`,
      )
    }
    if (json) session.terminal.out(`${JSON.stringify({ node_id: nodeId, fingerprint, url, data_dir: folder })}\n`)
    else session.terminal.out(introduction(session.terminal, running, localTokenFile))
    await ended
    await running.stop()
    // All is written and closed; a timer that is left must not hold up the end.
    process.exit(exitCodes.ok)
  },
})

export const node: Verb = {
  name: 'node',
  about: 'Run the node agent: this machine becomes a node of a gateway',
  actions: { '': runNode, ...nodeKeys },
}
