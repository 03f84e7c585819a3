import type { NodeOptions } from '../../../node/node-options.ts'
import type { OptionSpecs, OptionValues } from '../../frame/action.ts'
import { UsageFault } from '../../frame/failure.ts'
import { listenAddress } from '../../frame/listen-address.ts'
import type { Session } from '../../frame/session.ts'
import { dataDirOption } from './node-keys.ts'
import { powerGiven, powerOptions } from './node-power.ts'
import { pullOptions, pullsGiven } from './node-pulls.ts'

export const nodeOptions = {
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
  'kv-events': {
    kind: 'texts',
    value: 'URL=PORT[:REPLAY]',
    about: 'A vLLM or SGLang that publishes what is in its cache, the port where, and the port that replays it',
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

type NodeInput = OptionValues<typeof nodeOptions>

const {
  gateway: _gateway,
  token: _token,
  visibility: _visibility,
  'endpoint-url': _endpointUrl,
  'payout-address': _payoutAddress,
  insecure: _insecure,
  ...standing
} = nodeOptions
/** Options of every start. The others are of the enrolment, and needed once. */
export const standingOptions = standing
type StandingInput = OptionValues<typeof standingOptions>

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

/** Reads `http://127.0.0.1:8000=5557:5558`. The events of each rank have a port of their own. */
function readKvEvents(text: string): NonNullable<NodeOptions['kvEvents']>[number] {
  const [, url = '', port, replay] = /^(.+)=([0-9]{1,5})(?::([0-9]{1,5}))?$/.exec(text) ?? []
  const isPort = (digits: string) => Number(digits) >= 1 && Number(digits) <= 65_535
  if (port === undefined || !isPort(port) || (replay !== undefined && !isPort(replay)) || !URL.canParse(url))
    throw new UsageFault('--kv-events must be URL=PORT or URL=PORT:REPLAY, like http://127.0.0.1:8000=5557:5558')
  return { url, port: Number(port), ...(replay === undefined ? {} : { replay_port: Number(replay) }) }
}

/** What this machine shows of itself; undefined: nothing was asked for. */
function attestOf(given: StandingInput): NodeOptions['attest'] {
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
export function checkWishes({ gateway, token, visibility, 'endpoint-url': endpoint }: NodeInput): void {
  if (gateway === undefined || token !== undefined || (visibility === undefined && endpoint === undefined)) return
  throw new UsageFault('--visibility and --endpoint-url need --token: without one the operator alone decides')
}

/** What the options of every start say, without the folder. Throws `UsageFault`. */
export async function startGiven(given: StandingInput, dataDir: string, env: Session['env']) {
  const attest = attestOf(given)
  return {
    ...listenAddress(given.listen ?? '127.0.0.1:7071'),
    dataDir,
    runtimes: given.runtime,
    rankers: given.rerank.map(readRanker),
    runtimeKeys: given['runtime-key'].map((text) => readRuntimeKey(text, env)),
    kvEvents: given['kv-events'].map(readKvEvents),
    discover: !given['no-discover'],
    logKeys: given['log-key'],
    ...(attest === undefined ? {} : { attest }),
    power: powerGiven(given, env),
    ...(await pullsGiven(given, dataDir, env)),
    ...(given['keep-receipts'] === undefined ? {} : { receiptDays: given['keep-receipts'] }),
  } satisfies Partial<NodeOptions>
}
