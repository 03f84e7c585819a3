import type { Files } from './console-page.ts'

/** The folder in a built program, which contains the files already. */
export const builtManual = 'manual'

/**
 * The documents of the checkout as pages. A thread of its own makes them: they take half a second of processor time, and streams would
 * stand still meanwhile.
 */
export function bundleManual(): Promise<Files> {
  const worker = new Worker(new URL('../../manual/worker.ts', import.meta.url))
  return new Promise<Files>((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<Files>) => resolve(data)
    worker.onerror = ({ message }) => reject(new Error(message))
  }).finally(() => worker.terminate())
}
