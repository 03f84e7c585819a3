import { join } from 'node:path'
import type { PrivateFolder } from '../../host/private-files.ts'
import { NodeStartError } from '../membership/enrollment.ts'
import { type ModelsFile, mainDevice, memoryOf, modelsFile, type OwnFile } from '../servers/models-file.ts'
import { loadModels, modelsFileBytesMax, readModels } from '../servers/models-reading.ts'
import { PullFault } from './hubs/pull-fault.ts'
import type { Estimate } from './model-estimate.ts'

/** For llama.cpp's server. `{port}` and `{model}` are replaced at each start. */
export const serverCommand: readonly string[] = [
  ...['llama-server', '-m', '{file}', '--alias', '{model}'],
  ...['--port', '{port}', '-c', '{context}', '--metrics'],
]

export interface PulledModel {
  readonly model: string
  /** Absolute, the first one first. */
  readonly files: readonly OwnFile[]
  readonly estimate: Estimate
  /** As the owner of this computer wants it, with `{file}` and `{context}`. */
  readonly command: readonly string[]
}

/** Throws `PullFault` where the owner's file is missing or broken. */
function fileIn(folder: PrivateFolder): ModelsFile {
  try {
    const file = loadModels(folder.path)
    if (file !== null) return file
  } catch (error) {
    if (!(error instanceof NodeStartError)) throw error
  }
  throw new PullFault('models_file')
}

/** The memory that it counts in: that of the computer, or the largest device of the file. */
function deviceOf(file: ModelsFile): readonly [name: string, budgetMb: number] {
  const budget = Object.entries(memoryOf(file)).toSorted(([, a], [, b]) => b - a)
  return budget.find(([name]) => name === mainDevice) ?? budget[0] ?? [mainDevice, 0]
}

/** Throws `PullFault` for a name that is taken, and for a model that would never fit. */
export function checkFits(folder: PrivateFolder, model: string, memoryMb: number): void {
  const file = fileIn(folder)
  if (file.models.some(({ id, profiles = [] }) => id === model || profiles.some((one) => one.id === model))) {
    throw new PullFault('models_file')
  }
  if (memoryMb > deviceOf(file)[1]) throw new PullFault('does_not_fit')
}

/** Adds the model to `models.json`, which the agent reads again. Throws `PullFault`. */
export function writeEntry(folder: PrivateFolder, { model, files, estimate, command }: PulledModel): void {
  checkFits(folder, model, estimate.memoryMb)
  const path = join(folder.path, modelsFile)
  const before = fileIn(folder)
  const [device] = deviceOf(before)
  const memory = device === mainDevice ? { memory_mb: estimate.memoryMb } : { memory: { [device]: estimate.memoryMb } }
  const file = files[0]?.path ?? ''
  const words = command.map((word) =>
    word.replaceAll('{file}', file).replaceAll('{context}', String(estimate.contextLength)),
  )
  const after = { ...before, models: [...before.models, { id: model, command: words, ...memory, files }] }
  const text = JSON.stringify(after, null, 2)
  try {
    if (text.length > modelsFileBytesMax) throw new PullFault('models_file')
    readModels(path, text)
    folder.write(modelsFile, after)
  } catch (error) {
    throw error instanceof PullFault ? error : new PullFault('models_file', { cause: error })
  }
}
