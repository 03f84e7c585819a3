import { createLog } from '../../../src/log.ts'
import { startNode } from '../../../src/node/main.ts'
import type { AgentAsked, AgentStarted } from './agent-host.ts'

/** Several agents in one process, each as shipped, with the folder and the log of its own. */
const log = createLog('debug', (text) => process.stderr.write(text))
const quickly = { pollMs: 250, pollTimeoutMs: 1_500, connectTimeoutMs: 1_500 }
const tell = (started: AgentStarted) => process.send?.(started)

async function start({ id, gatewayUrl, token, runtimeUrl, apiKey, dataDir }: AgentAsked): Promise<void> {
  const node = await startNode({
    gatewayUrl,
    token,
    dataDir,
    log,
    hostname: '127.0.0.1',
    port: 0,
    discover: false,
    runtimes: [runtimeUrl],
    runtimeKeys: [{ url: runtimeUrl, apiKey }],
    runtimeTimes: quickly,
  })
  tell({ id, nodeId: node.nodeId ?? '', url: node.url })
}

process.on('message', (asked: AgentAsked) => {
  start(asked).catch((error: unknown) => tell({ id: asked.id, fault: String(error) }))
})
process.on('SIGTERM', () => process.exit(0))
