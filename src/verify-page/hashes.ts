import { sha256 } from '@noble/hashes/sha2.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'

/**
 * Stands in the page for `hash-wasm`, of which the rest of the program has its hashes: the page's policy allows no
 * WebAssembly, and microseconds do not matter here.
 */
interface State {
  update(bytes: Uint8Array): unknown
  digest(): Uint8Array
}

class Hasher {
  private state: State

  constructor(private readonly create: () => State) {
    this.state = create()
  }

  init(): this {
    this.state = this.create()
    return this
  }

  update(data: string | Uint8Array): this {
    this.state.update(typeof data === 'string' ? utf8ToBytes(data) : data)
    return this
  }

  digest(form?: 'binary' | 'hex'): Uint8Array | string {
    const bytes = this.state.digest()
    return form === 'binary' ? bytes : bytesToHex(bytes)
  }
}

export const createSHA256 = async () => new Hasher(() => sha256.create())
export const createKeccak = async () => new Hasher(() => keccak_256.create())
