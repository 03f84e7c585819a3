import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Bun begins with the files whose time it does not know: it would run the ones that take longest at the very end, where some
 * of its processes have nothing left to do. So each other file is told to take this, ms.
 */
const otherMs = 1

/**
 * Writes into `folder` what `bun test --timings` reads so that it begins with the files of `longest`, the longest first, and
 * returns the file's path. `longest`: ms of a file by its path, as it is in `files`.
 */
export function writeOrder(
  folder: string,
  files: readonly string[],
  longest: Readonly<Record<string, number | undefined>>,
): string {
  const path = join(folder, 'timings.json')
  const timed = Object.fromEntries(files.map((file) => [file, longest[file] ?? otherMs] as const))
  writeFileSync(path, JSON.stringify({ version: 1, files: timed }))
  return path
}
