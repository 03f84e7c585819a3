import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type AgentNode, answered, written } from './agent-node.ts'
import type { AgentProgram } from './agent-programs.ts'
import { folderWith } from './javascript.ts'
import { pythonWith } from './python.ts'

/** An agent takes many seconds to start on a busy machine. */
export const startMs = 300_000

/** The folder of the programs of an agent's packages; null: its registry is not reached, which is printed. */
export async function programsOf(agent: AgentProgram): Promise<string | null> {
  const packages = [agent.requirement, ...(agent.beside ?? [])]
  const folder = agent.registry === 'npm' ? await folderWith(packages) : await pythonWith(packages)
  if (folder === null) {
    console.log(`skipped: ${packages.join(', ')} cannot be installed from ${agent.registry}`)
    return null
  }
  return agent.registry === 'npm' ? join(folder, 'node_modules', '.bin') : dirname(folder)
}

/** What one start prints, on both of its streams. */
async function started(bin: string, program: string, given: readonly string[], home: string, env: object) {
  const child = Bun.spawn([join(bin, program), ...given], {
    cwd: home,
    env: { PATH: `${bin}:${process.env.PATH ?? ''}`, HOME: home, TERM: 'dumb', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: startMs,
  })
  const [out, wrong] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  await child.exited
  return `${out}\n${wrong}`
}

export interface AgentPlace {
  readonly url: string
  readonly key: string
  readonly node: AgentNode
}

/** True if the agent wrote the file by the model's first call, and told what it read in it; else what it printed. */
export async function isDone(agent: AgentProgram, bin: string, { url, key, node }: AgentPlace): Promise<true | string> {
  const home = mkdtempSync(join(tmpdir(), 'penstock-agent-'))
  const run = { url, key, home }
  for (const [path, text] of Object.entries(agent.files(run))) {
    mkdirSync(dirname(join(home, path)), { recursive: true })
    writeFileSync(join(home, path), text)
  }
  const note = join(home, 'note.txt')
  node.begin(note)
  let printed = ''
  for (const start of agent.starts) printed = await started(bin, agent.program, start, home, agent.env(run))
  const isWritten = existsSync(note) && readFileSync(note, 'utf8').trim() === written
  rmSync(home, { recursive: true })
  return isWritten && printed.includes(answered) ? true : `file: ${isWritten}; printed: ${printed.slice(-2_000)}`
}
