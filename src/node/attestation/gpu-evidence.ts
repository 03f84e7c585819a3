import { bytesToHex } from '@noble/hashes/utils.js'

/** What a command may print, bytes, and how long it may take, ms. */
const evidenceBytesMax = 96 * 1024
const commandMs = 10_000

class GpuEvidenceError extends Error {
  override readonly name = 'GpuEvidenceError'
}

/**
 * What the owner's command prints for this nonce, which is its one argument in hex. Nothing here looks into it: NVIDIA's tools write it, and
 * NVIDIA's tools check it. Rejects with `GpuEvidenceError`, and ends the command where it takes too long, says too much, or the caller has left.
 */
export async function gpuEvidence(command: string, nonce: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
  const child = Bun.spawn([command, bytesToHex(nonce)], {
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: commandMs,
    killSignal: 'SIGKILL',
  })
  const leave = () => child.kill('SIGKILL')
  signal.addEventListener('abort', leave, { once: true })
  try {
    const parts: Uint8Array[] = []
    let size = 0
    for await (const part of child.stdout) {
      size += part.length
      if (size > evidenceBytesMax) throw new GpuEvidenceError(`the command printed more than ${evidenceBytesMax} bytes`)
      parts.push(part)
    }
    const code = await child.exited
    if (code !== 0) throw new GpuEvidenceError('the command failed, or took too long')
    return new Uint8Array(Buffer.concat(parts))
  } finally {
    signal.removeEventListener('abort', leave)
    leave()
  }
}
