import { statSync } from 'node:fs'
import { join } from 'node:path'
import { type Loop, loop } from '../../host/loop.ts'
import type { Log } from '../../log.ts'
import { NodeStartError } from '../membership/enrollment.ts'
import type { ModelServers } from './model-servers.ts'
import { type ModelsFile, modelsFile } from './models-file.ts'
import { loadModels } from './models-reading.ts'

export interface ModelsWatchOptions {
  readonly folder: string
  readonly servers: ModelServers
  /** Between two looks, ms. */
  readonly everyMs: number
  readonly log: Log
  /** After the servers have taken over an edited file. */
  readonly adopted: (file: ModelsFile) => void
}

const gone = `${modelsFile} is gone. The models of before stay until there is another one.`

/** An editor may write a file anew under its name. null: there is none. */
function stampOf(folder: string): string | null {
  const found = statSync(join(folder, modelsFile), { throwIfNoEntry: false, bigint: true })
  return found === undefined ? null : `${found.ino} ${found.size} ${found.mtimeNs}`
}

/** Reads `models.json` again when it has changed. A broken one changes nothing, and is told to the owner of this computer. */
export function watchModels({ folder, servers, everyMs, log, adopted }: ModelsWatchOptions): Loop {
  let seen = stampOf(folder)
  const look = () => {
    const now = stampOf(folder)
    if (now === seen) return
    seen = now
    try {
      const file = loadModels(folder)
      if (file === null) throw new NodeStartError(gone)
      servers.adopt(file)
      adopted(file)
      log.info('models_file_read', { models: file.models.length })
    } catch (error) {
      if (!(error instanceof NodeStartError)) throw error
      servers.refused(error.message)
      // The line and the field stand in the agent's folder: a log may go elsewhere.
      log.warn('models_file_refused')
    }
  }
  const watching = loop({ pauseMs: everyMs, run: look, onFailure: () => log.warn('models_file_not_read') })
  watching.start()
  return watching
}
