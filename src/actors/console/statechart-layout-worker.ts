import ELK from 'elkjs/lib/elk.bundled.js'

/** A thread of its own: a layout takes a tenth of a second (measured), in which no chat could be served beside it. */
const elk = new ELK()

self.onmessage = ({ data }: MessageEvent) => {
  elk.layout(data).then(
    (picture) => postMessage({ picture }),
    (error: unknown) => postMessage({ failure: error instanceof Error ? error.message : 'failed' }),
  )
}
