import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { markedProcesses } from '../../../src/node/servers/marked-processes.ts'
import { type StoredServers, serversFile } from '../../../src/node/servers/stored-servers.ts'

const script = join(import.meta.dir, 'model-server-script.ts')

/** One model of a `models.json`, served by the small script. `flags`: of the script. */
export function scriptModel(id: string, flags: Readonly<Record<string, string>> = {}, more: object = {}): object {
  const given = Object.entries({ model: id, port: '{port}', ...flags }).flatMap(([name, value]) =>
    value === '' ? [`--${name}`] : [`--${name}`, value],
  )
  return { id, command: [process.execPath, script, ...given], memory_mb: 40, ...more }
}

export interface ModelFolder {
  readonly path: string
  write(file: object): void
  /** What the agent has written of its servers. */
  stored(): StoredServers
  stateOf(model: string): string | undefined
  /** Processes that any agent on this folder has started, by model. */
  running(): ReadonlyMap<string, readonly number[]>
  remove(): void
}

/** An agent's folder with a `models.json`. */
export function modelFolder(file: object): ModelFolder {
  const path = mkdtempSync(join(tmpdir(), 'penstock-models-'))
  const words = new Set<string>()
  const folder: ModelFolder = {
    path,
    write: (value) => writeFileSync(join(path, 'models.json'), JSON.stringify(value, null, 2)),
    stored: () => {
      const stored = JSON.parse(readFileSync(join(path, serversFile), 'utf8')) as StoredServers
      words.add(stored.word)
      return stored
    },
    stateOf: (model) => folder.stored().servers.find((server) => server.model === model)?.state,
    running: () => {
      if (existsSync(join(path, serversFile))) folder.stored()
      const byModel = new Map<string, number[]>()
      for (const pid of [...words].flatMap((word) => [...markedProcesses(word)])) {
        const model = modelOf(pid)
        byModel.set(model, [...(byModel.get(model) ?? []), pid])
      }
      return byModel
    },
    remove: () => rmSync(path, { recursive: true, force: true }),
  }
  folder.write(file)
  return folder
}

function modelOf(pid: number): string {
  try {
    const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    return args[args.indexOf('--model') + 1] ?? '?'
  } catch {
    return '?'
  }
}
