// Colours that people with colour blindness can tell apart (Okabe and Ito), and a scale by lightness alone.

export function isDark(): boolean {
    const chosen = document.documentElement.dataset["theme"];
    return chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

export function css(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// The style sheet has them, light and dark.
const categories = 8;

// For what is drawn once more when the theme changes; ask once for a whole drawing.
export function categoryColours(): (index: number) => string {
    const colours = Array.from({ length: categories }, (_, i) => css(`--category-${i}`));
    return (index) => colours[index % categories]!;
}
// For elements, which follow it.
export function categoryStyle(index: number): string {
    return `var(--category-${index % categories})`;
}

// 0 is the ground, 1 the strongest: dark on light, light on dark.
const light: [number, number, number][] = [
    [244, 246, 249],
    [196, 217, 236],
    [122, 172, 212],
    [38, 110, 170],
    [8, 40, 84],
];
const dark: [number, number, number][] = [
    [30, 35, 42],
    [32, 66, 98],
    [38, 116, 168],
    [120, 186, 228],
    [246, 250, 255],
];

const shades = 64;

// The colours of shares from 0 to 1; ask once for a whole drawing.
export function ramp(): (share: number) => string {
    const stops = isDark() ? dark : light;
    const colours = Array.from({ length: shades }, (_, shade) => {
        const at = (shade / (shades - 1)) * (stops.length - 1);
        const low = Math.min(Math.floor(at), stops.length - 2);
        const parts = [0, 1, 2].map((i) => stops[low]![i]! + (at - low) * (stops[low + 1]![i]! - stops[low]![i]!));
        return `rgb(${parts.map(Math.round).join(",")})`;
    });
    return (share) => colours[Math.round(Math.min(Math.max(share, 0), 1) * (shades - 1))]!;
}
