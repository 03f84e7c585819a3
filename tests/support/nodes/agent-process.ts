import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { postJson } from '../clients/post-json.ts'
import { firstMatch } from '../gateways/gateway-process.ts'

const cli = resolve(import.meta.dir, '../../../src/cli/main.ts')

/** The agent in a process of its own, as the command starts it. It belongs to no gateway unless `args` say so. */
export interface AgentProcess {
  readonly url: string
  /** null: it belongs to no gateway. */
  readonly nodeId: string | null
  readonly pid: number
  readonly child: Bun.Subprocess<'ignore', 'pipe', 'ignore'>
  /** A chat of a program on its computer; rejects unless it is answered. */
  chat(model: string): Promise<string>
}

export async function startAgentProcess(dataDir: string, ...args: readonly string[]): Promise<AgentProcess> {
  const listen = ['--listen', '127.0.0.1:0', '--no-discover', '--json']
  const child = Bun.spawn([process.execPath, cli, 'node', '--data-dir', dataDir, ...listen, ...args], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'ignore',
  })
  const [, nodeId, url = ''] = await firstMatch(child.stdout, /"node_id":(?:null|"([^"]+)").*"url":"([^"]+)"/)
  const token = () =>
    (JSON.parse(readFileSync(join(dataDir, 'local-token.json'), 'utf8')) as { local_token: string }).local_token
  return {
    url,
    nodeId: nodeId ?? null,
    pid: child.pid,
    child,
    chat: async (model) => {
      const response = await postJson(`${url}/v1/chat/completions`, token(), {
        model,
        messages: [{ role: 'user', content: 'hi' }],
      })
      const text = await response.text()
      if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
      return text
    },
  }
}

/** Processes that have this in their environment. */
export function processesWith(entry: string): readonly number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.map(Number).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(entry)
    } catch {
      return false
    }
  })
}
