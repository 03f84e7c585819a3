import { isLoopback } from '../../../host/loopback.ts'
import type { RunningNode } from '../../../node/main.ts'
import { action, type OptionValues, type Verb } from '../../frame/action.ts'
import { CliFailure, exitCodes, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import { printable, type Terminal } from '../../frame/terminal.ts'
import { untilSignal } from '../../frame/until-signal.ts'
import { checkWishes, nodeOptions, startGiven } from './node-given.ts'
import { joiningOf } from './node-join.ts'
import { nodeKeys } from './node-keys.ts'
import { nodePayee } from './node-payee.ts'
import { nodeInstall, nodeUninstall } from './node-service.ts'
import { nodeStatus } from './node-status.ts'

type NodeInput = OptionValues<typeof nodeOptions>

/** Errors whose text is for the operator. Of any other error only the name is shown. */
const operatorErrors: readonly string[] = ['NodeStartError', 'PrivateFileError']

async function start(given: NodeInput, session: Session, json: boolean, signal: AbortSignal): Promise<RunningNode> {
  const [{ startNode, nodeFolderPath }, { createLog }] = await Promise.all([
    import('../../../node/main.ts'),
    import('../../../log.ts'),
  ])
  const dataDir = given['data-dir'] ?? nodeFolderPath(session.env)
  const standing = await startGiven(given, dataDir, session.env)
  if (!isLoopback(standing.hostname)) {
    session.terminal.err('Other computers can reach this port, and the connection is not encrypted.\n')
  }
  const { gateway, token, insecure } = given
  const joining = await joiningOf(
    { gateway, token, insecure, dataDir, discover: standing.discover, json },
    session,
    signal,
  )
  return startNode({
    ...standing,
    ...joining,
    log: createLog('info', (text) => process.stderr.write(text)),
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
  options: nodeOptions,
  run: async ({ options: given, json }, session) => {
    checkWishes(given)
    const ended = untilSignal()
    const leaving = new AbortController()
    void ended.then(() => leaving.abort())
    const running = await start(given, session, json, leaving.signal).catch((error: unknown) => {
      if (error instanceof UsageFault) throw error
      if (error instanceof Error && operatorErrors.includes(error.name)) throw new CliFailure(error.message)
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
  actions: {
    '': runNode,
    install: nodeInstall,
    uninstall: nodeUninstall,
    status: nodeStatus,
    payee: nodePayee,
    ...nodeKeys,
  },
}
