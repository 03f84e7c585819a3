export type Zoom = 'width' | 'fit' | number

const step = 1.25
const bounds = { least: 0.3, most: 4 } as const

interface ZoomProps {
  readonly zoom: Zoom
  readonly change: (zoom: Zoom) => void
}

/** How large the picture is: as wide as its place, all of it in sight, or a multiple of its own size. */
export function ZoomButtons({ zoom, change }: ZoomProps) {
  const now = typeof zoom === 'number' ? zoom : 1
  const by = (factor: number) => change(Math.min(bounds.most, Math.max(bounds.least, now * factor)))
  return (
    <div class="zoom">
      <button
        type="button"
        class="quiet"
        aria-pressed={zoom === 'fit'}
        onClick={() => change(zoom === 'fit' ? 'width' : 'fit')}
      >
        Fit
      </button>
      <button
        type="button"
        class="quiet"
        aria-label="Smaller"
        disabled={now <= bounds.least}
        onClick={() => by(1 / step)}
      >
        −
      </button>
      <button type="button" class="quiet" aria-label="Larger" disabled={now >= bounds.most} onClick={() => by(step)}>
        +
      </button>
      <button type="button" class="quiet" aria-pressed={zoom === 1} onClick={() => change(zoom === 1 ? 'width' : 1)}>
        Actual size
      </button>
    </div>
  )
}

/** The width that a zoom gives to the picture, px; null: its place decides. */
export function widthOf(
  svg: SVGSVGElement,
  zoom: Zoom,
  place: { readonly width: number; readonly height: number },
): number | null {
  const { width, height } = svg.viewBox.baseVal
  if (zoom === 'width' || width === 0 || height === 0) return null
  if (zoom !== 'fit') return width * zoom
  return Math.min(place.width, (place.height * width) / height)
}
